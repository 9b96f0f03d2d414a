#include "server/doorstep.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// A record's header (type, version, length), a handshake's (type, length), and the
// client's version.
constexpr size_t kHelloBytes = 11;
constexpr absl::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kMostLookedAt = kHttp2Preface.size();
constexpr char kHandshakeRecord = 0x16;
constexpr char kMajor = 3;
constexpr char kClientHello = 1;
constexpr int kTls12 = 0x0303;
// How often in its patience the doorstep looks for those that say nothing.
constexpr int kLooks = 10;

}  // namespace

absl::string_view FaultOfGreeting(Greeting due, absl::string_view said,
                                  bool& enough) {
  enough = !said.empty();
  if (due == Greeting::kAny || said.empty()) return "";
  if (due == Greeting::kHttp2) {
    const absl::string_view head = said.substr(0, kHttp2Preface.size());
    enough = head.size() == kHttp2Preface.size();
    return absl::StartsWith(kHttp2Preface, head) ? "" : "speaks no HTTP/2";
  }
  if (said[0] != kHandshakeRecord || (said.size() > 1 && said[1] != kMajor) ||
      (said.size() > 5 && said[5] != kClientHello)) {
    return "speaks no TLS";
  }
  enough = said.size() >= kHelloBytes;
  if (!enough) return "";
  const int version =
      static_cast<uint8_t>(said[9]) << 8 | static_cast<uint8_t>(said[10]);
  return version < kTls12 ? "speaks TLS before 1.2" : "";
}

absl::StatusOr<std::unique_ptr<Doorstep>> Doorstep::Start(const Rules& rules,
                                                          const Clock& clock,
                                                          Ways ways) {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  epoll_event stop = {.events = EPOLLIN, .data = {.fd = stop_fd}};
  if (epoll_fd < 0 || stop_fd < 0 ||
      epoll_ctl(epoll_fd, EPOLL_CTL_ADD, stop_fd, &stop) != 0) {
    const int error = errno;
    if (epoll_fd >= 0) close(epoll_fd);
    if (stop_fd >= 0) close(stop_fd);
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("doorstep: ", strerror(error)));
  }
  return absl::WrapUnique(
      new Doorstep(rules, clock, std::move(ways), epoll_fd, stop_fd));
}

Doorstep::Doorstep(const Rules& rules, const Clock& clock, Ways ways,
                   int epoll_fd, int stop_fd)
    : rules_(rules),
      passes_(rules.passes, clock),
      ways_(std::move(ways)),
      epoll_fd_(epoll_fd),
      stop_fd_(stop_fd),
      thread_([this] { Loop(); }) {}

Doorstep::~Doorstep() {
  const uint64_t one = 1;
  if (write(stop_fd_, &one, sizeof(one)) != sizeof(one))
    LogError("doorstep.stop_failed", {{"error", strerror(errno)}});
  thread_.join();
  for (const auto& [fd, waiting] : waiting_) close(fd);
  close(epoll_fd_);
  close(stop_fd_);
}

void Doorstep::Take(int fd, const std::string& peer) {
  MutexLock lock(&mu_);
  waiting_[fd] = {SteadyIn(rules_.patience), peer};
  // Told of what comes, once: what was looked at stays where it is.
  epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                       .data = {.fd = fd}};
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0) return;
  LogWarning("doorstep.lost", {{"error", strerror(errno)}});
  waiting_.erase(fd);
  close(fd);
}

std::optional<std::string> Doorstep::Leave(int fd) {
  MutexLock lock(&mu_);
  const auto waiting = waiting_.find(fd);
  if (waiting == waiting_.end()) return std::nullopt;
  std::string peer = std::move(waiting->second.peer);
  waiting_.erase(waiting);
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  return peer;
}

void Doorstep::Loop() {
  std::array<epoll_event, 64> events;
  const int pause_ms = static_cast<int>(std::max<int64_t>(
      1, absl::ToInt64Milliseconds(rules_.patience / kLooks)));
  SteadyTime next_look = SteadyIn(rules_.patience / kLooks);
  while (true) {
    const int came =
        epoll_wait(epoll_fd_, events.data(), events.size(), pause_ms);
    for (int i = 0; i < came; ++i) {
      if (events[i].data.fd == stop_fd_) return;
      Look(events[i].data.fd);
    }
    if (TimeLeft(next_look) > absl::ZeroDuration()) continue;
    CloseSilent();
    next_look = SteadyIn(rules_.patience / kLooks);
  }
}

void Doorstep::Look(int fd) {
  std::array<char, kMostLookedAt> head;
  const ssize_t got =
      recv(fd, head.data(), head.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {  // it has gone, and asked for nothing
    if (Leave(fd)) close(fd);
    return;
  }
  bool enough = false;
  const absl::string_view fault = FaultOfGreeting(
      rules_.due, absl::string_view(head.data(), static_cast<size_t>(got)),
      enough);
  if (fault.empty() && !enough) return;
  const std::optional<std::string> peer = Leave(fd);
  if (!peer.has_value()) return;
  const bool in_time = peer->empty() || passes_.Take(*peer);
  if (fault.empty() && in_time) return ways_.pass(fd);
  if (in_time) {
    ways_.refuse(fd, fault);
  } else {
    ways_.put_off(fd, *peer);
  }
  close(fd);
}

void Doorstep::CloseSilent() {
  std::vector<int> silent;
  {
    MutexLock lock(&mu_);
    for (const auto& [fd, waiting] : waiting_)
      if (TimeLeft(waiting.until) == absl::ZeroDuration()) silent.push_back(fd);
  }
  for (const int fd : silent) {
    if (!Leave(fd)) continue;
    ways_.refuse(fd, "says nothing");
    close(fd);
  }
}

}  // namespace kiln

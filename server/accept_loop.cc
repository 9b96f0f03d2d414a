#include "server/accept_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(
    std::vector<int> listening, Take take) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("accept: eventfd: ", strerror(errno)));
  }
  return absl::WrapUnique(
      new AcceptLoop(std::move(listening), std::move(take), stop_fd));
}

AcceptLoop::AcceptLoop(std::vector<int> listening, Take take, int stop_fd)
    : listening_(std::move(listening)),
      take_(std::move(take)),
      stop_fd_(stop_fd),
      thread_([this] { Loop(); }) {}

AcceptLoop::~AcceptLoop() {
  const uint64_t one = 1;
  if (write(stop_fd_, &one, sizeof(one)) != sizeof(one)) {
    LogError("accept.stop_failed", {{"error", strerror(errno)}});
  }
  thread_.join();
  close(stop_fd_);
}

void AcceptLoop::Loop() {
  std::vector<pollfd> fds = {{.fd = stop_fd_, .events = POLLIN, .revents = 0}};
  for (const int fd : listening_)
    fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  while (true) {
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
      LogError("accept.ended", {{"error", strerror(errno)}});
      return;
    }
    if (fds[0].revents != 0) return;
    for (size_t i = 1; i < fds.size(); ++i)
      if (fds[i].revents != 0) AcceptAll(fds[i].fd);
  }
}

void AcceptLoop::AcceptAll(int listening) {
  while (true) {
    const int fd =
        accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      take_(fd);
      continue;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    // Most likely out of descriptors: give calls under way time to end instead of
    // spinning on a socket that stays readable.
    LogWarning("accept.failed", {{"error", strerror(errno)}});
    pollfd stop = {.fd = stop_fd_, .events = POLLIN, .revents = 0};
    poll(&stop, 1, 100);
    return;
  }
}

}  // namespace kiln

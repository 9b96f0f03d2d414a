#include "server/connection_watch.h"

#include <fcntl.h>
#include <linux/tcp.h>  // tcpi_bytes_received, which netinet/tcp.h lacks
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/string_view.h"
#include "server/open_connections.h"

namespace kiln {
namespace {

constexpr absl::string_view kLeft =
    "its handshake broke off, or it made no call";
constexpr absl::string_view kFlood = "sends much and makes no call";
constexpr absl::string_view kBegun =
    "begins a call and does not end its headers";
constexpr absl::string_view kResets = "resets the calls that it makes";
// Of a door's total.
constexpr absl::string_view kShed =
    "sends most where all send too much and make no call";

// One sweep in so many asks of every connection whether it is open still.
constexpr int kSweepsALook = 20;

// How many bytes of the connection have been read; 0: it is no TCP socket.
int64_t BytesRead(int fd) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  int waiting = 0;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      length < offsetof(tcp_info, tcpi_bytes_received) +
                   sizeof(info.tcpi_bytes_received) ||
      ioctl(fd, FIONREAD, &waiting) != 0) {
    return 0;
  }
  return static_cast<int64_t>(info.tcpi_bytes_received) - waiting;
}

// Whether the descriptor still is that socket, and its peer is there.
bool IsOpen(int fd, uint64_t cookie) {
  pollfd look = {.fd = fd, .events = POLLRDHUP, .revents = 0};
  return SocketCookie(fd) == cookie && poll(&look, 1, 0) == 0;
}

// Ends the connection, if the descriptor still is that socket. A descriptor of our
// own keeps the kernel from giving the number to another one meanwhile. What the peer
// has sent and nobody read is dropped, and the peer is told at once, also where it waits
// to send; gRPC finds the end, and closes its own.
void Shut(int fd, uint64_t cookie) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  if (SocketCookie(own) == cookie) {
    const sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (connect(own, &nobody, sizeof(nobody)) != 0) shutdown(own, SHUT_RDWR);
  }
  close(own);
}

}  // namespace

ConnectionWatch::WatchedCall::WatchedCall(WatchedCall&& other) noexcept
    : begun_(std::move(other.begun_)),
      watch_(std::exchange(other.watch_, nullptr)),
      connection_(std::move(other.connection_)),
      admitted_(other.admitted_),
      answered_(other.answered_) {}

ConnectionWatch::WatchedCall::~WatchedCall() {
  if (connection_ == nullptr) return;
  MutexLock lock(&watch_->mu_);
  if (!answered_) --connection_->all_calls;
  if (!admitted_) return;
  --connection_->calls;
  connection_->call_ended = true;
}

void ConnectionWatch::WatchedCall::HearAnswer() {
  begun_.HearAnswer();
  if (connection_ == nullptr) return;
  answered_ = true;
  MutexLock lock(&watch_->mu_);
  --connection_->all_calls;
}

void ConnectionWatch::WatchedCall::HearReset() {
  // Held until it is counted: the call may end meanwhile.
  const std::shared_ptr<Connection> connection = connection_;
  if (connection != nullptr) watch_->CountReset(*connection);
}

void ConnectionWatch::HearReset(const std::string& peer) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mu_);
    const auto found = by_peer_.find(peer);
    if (found == by_peer_.end()) return;
    connection = found->second;
  }
  CountReset(*connection);
}

void ConnectionWatch::CountReset(Connection& connection) {
  // What is under way when a peer goes is ended too: it did not reset that.
  if (!IsOpen(connection.fd, connection.cookie)) return;
  const SteadyTime now = clock_.Steady();
  bool in_rate = false;
  {
    MutexLock lock(&mu_);
    const Rate& rate = limits_.resets;
    if (!connection.resets.has_value()) connection.resets.emplace(rate, now);
    in_rate = connection.resets->Take(rate, now);
  }
  if (!connection.holder.empty() && !holder_resets_.Take(connection.holder))
    in_rate = false;
  if (!in_rate) End(connection);
}

bool ConnectionWatch::MayConnect(const std::string& holder) const {
  const SteadyTime now = clock_.Steady();
  MutexLock lock(&mu_);
  const auto found = barred_.find(holder);
  return found == barred_.end() || found->second <= now;
}

void ConnectionWatch::Bar(const std::string& holder) {
  if (holder.empty()) return;
  const SteadyTime now = clock_.Steady();
  absl::erase_if(barred_, [now](const auto& row) { return row.second <= now; });
  if (barred_.size() < kMostBarred) barred_[holder] = After(now, limits_.bar);
}

ConnectionWatch::WatchedCall ConnectionWatch::Begin(
    const std::shared_ptr<Connection>& connection, bool admitted,
    BegunCalls::Heard begun) {
  bool too_many = false;
  {
    MutexLock lock(&mu_);
    too_many = ++connection->all_calls > limits_.calls;
  }
  if (too_many) End(*connection);
  return WatchedCall(this, connection, admitted, std::move(begun));
}

void ConnectionWatch::End(Connection& connection) {
  {
    MutexLock lock(&mu_);
    if (std::exchange(connection.ended, true)) return;
    Bar(connection.holder);
  }
  Shut(connection.fd, connection.cookie);
  refused_(connection.peer, kResets);
}

bool ConnectionWatch::IsEnded(const std::string& peer) const {
  MutexLock lock(&mu_);
  const auto found = by_peer_.find(peer);
  return found != by_peer_.end() && found->second->ended;
}

void ConnectionWatch::HearFlood(const std::string& peer) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mu_);
    const auto found = by_peer_.find(peer);
    if (found == by_peer_.end()) return;
    connection = found->second;
  }
  End(*connection);
}

void ConnectionWatch::Add(int fd, const std::string& peer,
                          const std::string& holder) {
  auto added = std::make_shared<Connection>();
  added->fd = fd;
  added->cookie = SocketCookie(fd);
  added->peer = peer;
  added->holder = holder;
  added->since = SteadyNow();
  bool left = false;
  {
    MutexLock lock(&mu_);
    // A peer that is there already has closed its first connection, and opened
    // another from the same port.
    std::shared_ptr<Connection>& place = by_peer_[peer];
    left = place != nullptr && !place->heard;
    place = std::move(added);
  }
  if (left) refused_(peer, kLeft);
}

ConnectionWatch::WatchedCall ConnectionWatch::HearStranger(
    const std::string& peer, BegunCalls::Heard begun) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mu_);
    const auto found = by_peer_.find(peer);
    if (found == by_peer_.end()) return WatchedCall(std::move(begun));
    connection = found->second;
  }
  const int64_t read = BytesRead(connection->fd);
  {
    MutexLock lock(&mu_);
    connection->heard = true;
    connection->is_callers = false;
    connection->counted_from = read;
    connection->since = SteadyNow();
  }
  return Begin(connection, /*admitted=*/false, std::move(begun));
}

ConnectionWatch::WatchedCall ConnectionWatch::HearCaller(
    const std::string& peer, BegunCalls::Heard begun) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mu_);
    const auto found = by_peer_.find(peer);
    if (found == by_peer_.end()) return WatchedCall(std::move(begun));
    connection = found->second;
    connection->heard = true;
    connection->is_callers = true;
    ++connection->calls;
  }
  return Begin(connection, /*admitted=*/true, std::move(begun));
}

void ConnectionWatch::Sweep(SteadyTime now) {
  const bool looks_at_all = sweeps_++ % kSweepsALook == 0;
  std::vector<Look> looks = Due(looks_at_all);
  for (Look& look : looks) {
    const Connection& connection = *look.connection;
    look.read = BytesRead(connection.fd);
    if (looks_at_all)
      look.gone = SocketCookie(connection.fd) != connection.cookie;
  }
  Judge(looks, now);
  for (const Look& look : looks) {
    if (look.fault.empty()) continue;
    if (!look.gone) Shut(look.connection->fd, look.connection->cookie);
    refused_(look.connection->peer, look.fault);
  }
}

std::vector<ConnectionWatch::Look> ConnectionWatch::Due(bool callers_too) {
  std::vector<Look> looks;
  MutexLock lock(&mu_);
  for (const auto& [peer, connection] : by_peer_) {
    if (callers_too || (!connection->is_callers && !connection->ended))
      looks.push_back({.connection = connection});
  }
  return looks;
}

void ConnectionWatch::Judge(std::vector<Look>& looks, SteadyTime now) {
  MutexLock lock(&mu_);
  for (Look& look : looks) look.fault = FaultOf(look, now);
  KeepTotal(looks);
  for (const Look& look : looks)
    if (look.gone || !look.fault.empty()) Forget(*look.connection);
}

absl::string_view ConnectionWatch::FaultOf(Look& look, SteadyTime now) {
  Connection& connection = *look.connection;
  if (look.gone) return connection.heard ? "" : kLeft;
  if (connection.calls > 0 || connection.ended) return "";
  if (std::exchange(connection.call_ended, false)) {
    connection.counted_from = look.read;
    connection.since = now;
  }
  const int64_t bytes = look.read - connection.counted_from;
  const absl::Duration quiet = Between(connection.since, now);
  if (quiet >= limits_.quiet_time) return kBegun;
  if (connection.is_callers) return bytes > limits_.caller_bytes ? kFlood : "";
  if (bytes > limits_.bytes) return kFlood;
  if (bytes > limits_.begun_bytes && quiet >= limits_.begun_time) return kBegun;
  look.quiet_bytes = std::max<int64_t>(bytes, 0);
  return "";
}

void ConnectionWatch::KeepTotal(std::vector<Look>& looks) const {
  int64_t all = 0;
  for (const Look& look : looks) all += look.quiet_bytes;
  if (all <= limits_.all_bytes) return;
  struct Holder {
    int64_t bytes = 0;
    std::vector<Look*> looks;  // the largest last
  };
  std::sort(looks.begin(), looks.end(), [](const Look& a, const Look& b) {
    return a.quiet_bytes < b.quiet_bytes;
  });
  absl::flat_hash_map<absl::string_view, Holder> holders;
  for (Look& look : looks) {
    Holder& holder = holders[look.connection->holder];
    holder.bytes += look.quiet_bytes;
    holder.looks.push_back(&look);
  }
  while (all > limits_.all_bytes) {
    Holder& most = std::max_element(holders.begin(), holders.end(),
                                    [](const auto& a, const auto& b) {
                                      return a.second.bytes < b.second.bytes;
                                    })
                       ->second;
    Look& largest = *most.looks.back();
    most.looks.pop_back();
    most.bytes -= largest.quiet_bytes;
    all -= largest.quiet_bytes;
    largest.fault = kShed;
  }
}

void ConnectionWatch::Forget(const Connection& connection) {
  const auto found = by_peer_.find(connection.peer);
  if (found != by_peer_.end() && found->second.get() == &connection)
    by_peer_.erase(found);
}

}  // namespace kiln

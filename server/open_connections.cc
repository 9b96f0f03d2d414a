#include "server/open_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// For the database (256 files), workers, the far tier, logs and configuration.
constexpr int64_t kOtherDescriptors = 512;
constexpr int64_t kMostConnections = 16384;
constexpr int64_t kFewestConnections = 16;

}  // namespace

// Not where a /64 is everybody: IPv4's, and those of one link.
std::string ConnectionHolder(absl::string_view peer) {
  in6_addr address;
  if (inet_pton(AF_INET6, std::string(peer).c_str(), &address) != 1 ||
      IN6_IS_ADDR_V4MAPPED(&address) || IN6_IS_ADDR_LINKLOCAL(&address)) {
    return std::string(peer);
  }
  std::memset(address.s6_addr + 8, 0, 8);
  char network[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &address, network, sizeof(network));
  return absl::StrCat(network, "/64");
}

uint64_t SocketCookie(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) != 0) return 0;
  return cookie;
}

ConnectionLimits LimitsForDescriptors(int64_t max_descriptors) {
  const int64_t all = std::clamp((max_descriptors - kOtherDescriptors) / 2,
                                 kFewestConnections, kMostConnections);
  return {.all = all, .of_a_peer = all / 4};
}

absl::Status OpenConnections::Add(int fd, absl::string_view peer) {
  const std::string holder = ConnectionHolder(peer);
  MutexLock lock(&mu_);
  // The descriptor is new: what was there before is closed.
  const auto before = open_.find(fd);
  if (before != open_.end()) Forget(before);
  if (IsFull(holder)) Sweep();
  if (IsFull(holder)) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("connection of ", peer, ": found ", CountOf(holder),
                     " of its own and ", open_.size(), " in all, at most ",
                     limits_.of_a_peer, " and ", limits_.all));
  }
  ++peers_[holder];
  open_[fd] = {SocketCookie(fd), holder};
  return absl::OkStatus();
}

void OpenConnections::Sweep() {
  for (auto socket = open_.begin(); socket != open_.end();) {
    const auto next = std::next(socket);
    if (SocketCookie(socket->first) != socket->second.cookie) Forget(socket);
    socket = next;
  }
}

void OpenConnections::Forget(
    absl::flat_hash_map<int, Socket>::iterator socket) {
  const auto peer = peers_.find(socket->second.peer);
  if (--peer->second == 0) peers_.erase(peer);
  open_.erase(socket);
}

int64_t OpenConnections::CountOf(absl::string_view peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? 0 : found->second;
}

bool OpenConnections::IsFull(absl::string_view peer) const {
  return static_cast<int64_t>(open_.size()) >= limits_.all ||
         (!peer.empty() && CountOf(peer) >= limits_.of_a_peer);
}

}  // namespace kiln

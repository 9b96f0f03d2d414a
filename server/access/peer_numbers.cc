#include "server/access/peer_numbers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"
#include "server/open_connections.h"

namespace kiln {
namespace {

// It asks the kernel of each connection.
constexpr absl::Duration kSweepPause = absl::Minutes(1);

}  // namespace

absl::StatusOr<int> PeerNumbers::Bind(int fd, uid_t uid) {
  const SteadyTime now = clock_.Steady();
  const uint64_t cookie = SocketCookie(fd);
  MutexLock lock(&mu_);
  if (Between(swept_, now) >= kSweepPause) Sweep(now);
  int number = fd;
  while (true) {
    const auto holder = holders_.find(number);
    if (holder == holders_.end() || holder->second.user == uid) break;
    // Numbers above are tried, the lowest free one first.
    const int next = fcntl(fd, F_DUPFD_CLOEXEC, number + 1);
    const int error = errno;
    if (number != fd) close(number);
    if (next < 0) {
      close(fd);
      return MakeError(
          ErrorReason::kStorage,
          absl::StrCat("connection of user ", uid, ": ", strerror(error)));
    }
    number = next;
  }
  if (number != fd) close(fd);
  holders_[number] = {.user = uid, .cookie = cookie};
  return number;
}

void PeerNumbers::Sweep(SteadyTime now) {
  swept_ = now;
  absl::erase_if(holders_, [now](auto& row) {
    Holder& holder = row.second;
    if (!holder.closed.has_value()) {
      if (SocketCookie(row.first) != holder.cookie) holder.closed = now;
      return false;
    }
    return Between(*holder.closed, now) >= kKept;
  });
}

size_t PeerNumbers::known() const {
  MutexLock lock(&mu_);
  return holders_.size();
}

std::optional<uid_t> PeerNumbers::UserOf(absl::string_view peer) const {
  int number = -1;
  if (!absl::ConsumePrefix(&peer, "fd:") || !absl::SimpleAtoi(peer, &number))
    return std::nullopt;
  MutexLock lock(&mu_);
  const auto holder = holders_.find(number);
  if (holder == holders_.end()) return std::nullopt;
  return holder->second.user;
}

}  // namespace kiln

#include "server/access/peer_numbers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<int> PeerNumbers::Bind(int fd, uid_t uid) {
  MutexLock lock(&mu_);
  int number = fd;
  while (true) {
    const auto [user, is_new] = users_.try_emplace(number, uid);
    if (is_new || user->second == uid) break;
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
  return number;
}

std::optional<uid_t> PeerNumbers::UserOf(absl::string_view peer) const {
  int number = -1;
  if (!absl::ConsumePrefix(&peer, "fd:") || !absl::SimpleAtoi(peer, &number))
    return std::nullopt;
  MutexLock lock(&mu_);
  const auto user = users_.find(number);
  if (user == users_.end()) return std::nullopt;
  return user->second;
}

}  // namespace kiln

#include "server/listen_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Refuse(const std::string& path, absl::string_view what) {
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("socket ", path, ": ", what, ": ", strerror(errno)));
}

// Whether the file behind `fd` is still the one at `path`: its last holder
// removes it.
bool IsAt(int fd, const std::string& path) {
  struct stat held = {};
  struct stat there = {};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

absl::StatusOr<int> TakeLock(const std::string& path, const std::string& lock) {
  while (true) {
    const int fd =
        open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Refuse(path, absl::StrCat("can't open ", lock));
    const bool taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (taken && IsAt(fd, lock)) return fd;
    close(fd);
    if (taken) continue;
    return MakeError(
        ErrorReason::kInUse,
        absl::StrCat("socket ", path,
                     ": another kilnd listens on it; stop that one, or name "
                     "another path with --socket"));
  }
}

// Nothing lies at the path, or the socket of a daemon that was killed: nobody else's
// file is taken away, and no socket that another program listens on.
absl::Status CheckLeftBehind(const sockaddr_un& address) {
  const std::string path = address.sun_path;
  const auto refuse = [&path](absl::string_view found) {
    return MakeError(ErrorReason::kInUse,
                     absl::StrCat("socket ", path, ": found ", found,
                                  " there; name another path with --socket"));
  };
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (S_ISDIR(info.st_mode)) return refuse("a folder");
  if (!S_ISSOCK(info.st_mode)) return refuse("a file that is not a socket");
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Refuse(path, "no socket");
  const bool answers = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) == 0 ||
                       errno == EAGAIN;
  close(fd);
  return answers ? refuse("a socket that another program listens on")
                 : absl::OkStatus();
}

std::string LockOf(const std::string& path) {
  return absl::StrCat(path, ".lock");
}

}  // namespace

absl::StatusOr<ListenSocket> ListenSocket::Open(const std::string& path,
                                                bool for_others) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("socket ", path, ": found ", path.size(),
                                  " bytes, expected 1 to 107"));
  }
  memcpy(address.sun_path, path.data(), path.size());

  ASSIGN_OR_RETURN(const int lock_fd, TakeLock(path, LockOf(path)));
  ListenSocket listening(path, lock_fd, -1);
  RETURN_IF_ERROR(CheckLeftBehind(address));
  unlink(path.c_str());
  listening.fd_ =
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int fd = listening.fd_;
  if (fd < 0) return Refuse(path, "no socket");
  // bind makes the file with the mode of the descriptor: never open to others,
  // not even for a moment.
  if (fchmod(fd, 0600) != 0) return Refuse(path, "can't set its mode");
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    return Refuse(path, "can't bind");
  }
  RETURN_IF_ERROR(listening.SetForOthers(for_others));
  if (listen(fd, 128) != 0) return Refuse(path, "can't listen");
  return listening;
}

absl::Status ListenSocket::SetForOthers(bool for_others) {
  if (chmod(path_.c_str(), for_others ? 0666 : 0600) != 0)
    return Refuse(path_, "can't set its mode");
  return absl::OkStatus();
}

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      fd_(std::exchange(other.fd_, -1)) {}

ListenSocket::~ListenSocket() {
  if (lock_fd_ < 0) return;  // moved from
  if (fd_ >= 0) {
    unlink(path_.c_str());
    close(fd_);
  }
  unlink(LockOf(path_).c_str());
  close(lock_fd_);
}

}  // namespace kiln

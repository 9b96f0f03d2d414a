#ifndef KILN_SERVER_LISTEN_SOCKET_H_
#define KILN_SERVER_LISTEN_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace kiln {

// A Unix socket that listens, mode 0600 or, for other users too, 0666, and the
// lock that makes it ours:
// `path`.lock, held by flock for as long as this lives. A socket file that a
// killed daemon left behind is removed; a living daemon's is never touched.
//
// Move-only; removes the socket file and the lock's when destroyed.
class ListenSocket {
 public:
  // IN_USE, naming the path: another program listens on it, or what lies there
  // is no socket. STORAGE: the folder is absent or can't be written. BAD_OPTION:
  // a path too long for a socket.
  static absl::StatusOr<ListenSocket> Open(const std::string& path,
                                           bool for_others = false);

  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&&) = delete;
  ~ListenSocket();

  // Whether other users reach it from now on. STORAGE, naming the path.
  absl::Status SetForOthers(bool for_others);

  // Non-blocking.
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  ListenSocket(std::string path, int lock_fd, int fd)
      : path_(std::move(path)), lock_fd_(lock_fd), fd_(fd) {}

  std::string path_;
  int lock_fd_;
  int fd_;
};

}  // namespace kiln

#endif  // KILN_SERVER_LISTEN_SOCKET_H_

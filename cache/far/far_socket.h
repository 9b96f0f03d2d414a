#ifndef KILN_CACHE_FAR_FAR_SOCKET_H_
#define KILN_CACHE_FAR_FAR_SOCKET_H_

#include <sys/socket.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A host's address with its port, as the system takes it.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
};

// A TCP socket that does not block and is closed with its owner. One thread at a
// time.
class FarSocket {
 public:
  // UNAVAILABLE STORAGE: refused or unreachable. DEADLINE_EXCEEDED.
  static absl::StatusOr<FarSocket> Connect(const SocketAddress& address,
                                           SteadyTime deadline);

  FarSocket(FarSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FarSocket& operator=(FarSocket&&) = delete;
  ~FarSocket();

  int fd() const { return fd_; }

  // Until one of the poll events (POLLIN, POLLOUT) is there. DEADLINE_EXCEEDED.
  absl::Status WaitFor(int events, SteadyTime deadline) const;

 private:
  explicit FarSocket(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_SOCKET_H_

#ifndef KILN_CACHE_FAR_FAR_SOCKET_H_
#define KILN_CACHE_FAR_FAR_SOCKET_H_

#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A host's address with its port, as the system takes it.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  // "10.0.0.7:6379", "[::1]:6379".
  std::string Text() const;
};

// A TCP socket that does not block and is closed with its owner. One thread at a
// time.
class FarSocket {
 public:
  // To the first of a host's addresses that takes it, in their order; each has its
  // share of the time that is left.
  //
  // UNAVAILABLE STORAGE: all refused or unreachable; the message has each address
  // and why. DEADLINE_EXCEEDED when one of them did not answer.
  static absl::StatusOr<FarSocket> Connect(
      absl::Span<const SocketAddress> addresses, SteadyTime deadline);

  FarSocket(FarSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FarSocket& operator=(FarSocket&&) = delete;
  ~FarSocket();

  int fd() const { return fd_; }

  // Until one of the poll events (POLLIN, POLLOUT) is there. DEADLINE_EXCEEDED.
  absl::Status WaitFor(int events, SteadyTime deadline) const;

 private:
  explicit FarSocket(int fd) : fd_(fd) {}
  static absl::StatusOr<FarSocket> ConnectTo(const SocketAddress& address,
                                             SteadyTime deadline);

  int fd_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_SOCKET_H_

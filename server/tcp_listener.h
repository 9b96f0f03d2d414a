#ifndef KILN_SERVER_TCP_LISTENER_H_
#define KILN_SERVER_TCP_LISTENER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// Sockets that listen at each address that the host of "host:port" has, all at one
// port. Move-only; closes them.
class TcpListener {
 public:
  // `address` has passed CheckTcpAddress; its port 0 means any free one.
  //
  // STORAGE, naming the address: it is not this machine's, or taken.
  static absl::StatusOr<TcpListener> Open(const std::string& address);

  TcpListener(TcpListener&& other) noexcept : port_(other.port_) {
    fds_.swap(other.fds_);
  }
  TcpListener& operator=(TcpListener&&) = delete;
  ~TcpListener();

  // Non-blocking.
  const std::vector<int>& fds() const { return fds_; }
  int port() const { return port_; }

 private:
  TcpListener() = default;

  std::vector<int> fds_;
  int port_ = 0;
};

// Who is at the other end of a connected socket, without the port: "10.0.0.7", also
// where an IPv6 socket took it. Empty when that is not known.
std::string PeerAddress(int fd);
// Its port; 0 when that is not known.
int PeerPort(int fd);

}  // namespace kiln

#endif  // KILN_SERVER_TCP_LISTENER_H_

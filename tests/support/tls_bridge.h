#ifndef KILN_TESTS_SUPPORT_TLS_BRIDGE_H_
#define KILN_TESTS_SUPPORT_TLS_BRIDGE_H_

#include <openssl/ssl.h>

#include <memory>
#include <thread>

#include "proto/rpc/daemon_tls.h"

namespace kiln {

// A TLS connection to a port of 127.0.0.1 that offers HTTP/2 and shows a certificate,
// for whoever speaks by a plain socket, as RawHttp2 does. It lasts until that socket is
// closed. What goes wrong is a failure of the test.
class TlsBridge {
 public:
  TlsBridge(int port, const DaemonTls& own);
  TlsBridge(const TlsBridge&) = delete;
  TlsBridge& operator=(const TlsBridge&) = delete;
  // Waits for the socket's end.
  ~TlsBridge();

  // The socket, which its user closes.
  int socket() const { return ends_[0]; }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  void Carry();

  int ends_[2] = {-1, -1};
  const int fd_;
  const std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> tls_;
  std::thread thread_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_TLS_BRIDGE_H_

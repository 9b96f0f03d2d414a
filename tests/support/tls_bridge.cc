#include "tests/support/tls_bridge.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/support/loopback.h"

namespace kiln {

TlsBridge::TlsBridge(int port, const DaemonTls& own)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      context_(SSL_CTX_new(TLS_client_method())) {
  signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
  EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_.get(),
                                               own.certificate.c_str()),
            1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), own.key.c_str(),
                                        SSL_FILETYPE_PEM),
            1);
  // A record without bytes for the user is no reason to wait for another.
  SSL_CTX_clear_mode(context_.get(), SSL_MODE_AUTO_RETRY);
  tls_.reset(SSL_new(context_.get()));
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  EXPECT_EQ(SSL_set_alpn_protos(tls_.get(), kHttp2, sizeof(kHttp2)), 0);
  const sockaddr_in address = LoopbackAddress(port);
  EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  SSL_set_fd(tls_.get(), fd_);
  EXPECT_EQ(SSL_connect(tls_.get()), 1);
  thread_ = std::thread([this] {
    Carry();
    shutdown(ends_[1], SHUT_RDWR);  // its user hears of the end
  });
}

TlsBridge::~TlsBridge() {
  thread_.join();
  close(ends_[1]);
  close(fd_);
}

void TlsBridge::Carry() {
  char bytes[16384];
  while (true) {
    pollfd ready[] = {{fd_, POLLIN, 0}, {ends_[1], POLLIN, 0}};
    if (SSL_pending(tls_.get()) == 0 && poll(ready, 2, -1) < 0) return;
    if (ready[0].revents != 0 || SSL_pending(tls_.get()) > 0) {
      const int read = SSL_read(tls_.get(), bytes, sizeof(bytes));
      if (read <= 0 && SSL_get_error(tls_.get(), read) != SSL_ERROR_WANT_READ)
        return;
      if (read > 0 && write(ends_[1], bytes, read) != read) return;
    }
    if (ready[1].revents == 0) continue;
    const ssize_t read = ::read(ends_[1], bytes, sizeof(bytes));
    if (read <= 0 || SSL_write(tls_.get(), bytes, static_cast<int>(read)) <= 0)
      return;
  }
}

}  // namespace kiln

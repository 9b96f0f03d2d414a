#include "tests/support/raw_tls.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/support/loopback.h"

namespace kiln {

RawTls::RawTls(int port, const std::string& server_name)
    : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      context_(SSL_CTX_new(TLS_client_method())),
      tls_(SSL_new(context_.get())) {
  // OpenSSL writes to a socket that was closed as to any other.
  signal(SIGPIPE, SIG_IGN);
  const sockaddr_in address = LoopbackAddress(port);
  EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  EXPECT_EQ(SSL_set_alpn_protos(tls_.get(), kHttp2, sizeof(kHttp2)), 0);
  if (!server_name.empty()) {
    EXPECT_EQ(SSL_set_tlsext_host_name(tls_.get(), server_name.c_str()), 1);
  }
  SSL_set_fd(tls_.get(), fd_);
  EXPECT_EQ(SSL_connect(tls_.get()), 1);
}

RawTls::~RawTls() { close(fd_); }

std::string RawTls::PeerName() const {
  const X509* const peer = SSL_get0_peer_certificate(tls_.get());
  if (peer == nullptr) return "";
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, name,
                            sizeof(name));
  return name;
}

bool RawTls::Send(absl::string_view bytes) {
  return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) >
         0;
}

void RawTls::AwaitEnd() {
  char bytes[4096];
  while (SSL_read(tls_.get(), bytes, sizeof(bytes)) > 0) {
  }
}

}  // namespace kiln

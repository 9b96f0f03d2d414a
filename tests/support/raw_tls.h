#ifndef KILN_TESTS_SUPPORT_RAW_TLS_H_
#define KILN_TESTS_SUPPORT_RAW_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// A TLS connection to a port of 127.0.0.1 that offers HTTP/2, shows no certificate
// and believes whoever answers. One that is not made is a failure of the test.
class RawTls {
 public:
  // `server_name`: what it asks for (SNI), any bytes; empty: nothing.
  explicit RawTls(int port, const std::string& server_name = "");
  RawTls(const RawTls&) = delete;
  RawTls& operator=(const RawTls&) = delete;
  ~RawTls();

  // The common name of the other end's certificate.
  std::string PeerName() const;
  // False once the other end has closed it.
  bool Send(absl::string_view bytes);
  // Reads until the other end closes it.
  void AwaitEnd();

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  const int fd_;
  const std::unique_ptr<SSL_CTX, Free> context_;
  const std::unique_ptr<SSL, Free> tls_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_RAW_TLS_H_

#include "cache/far/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslPtr = std::unique_ptr<SSL, FreeSsl>;
using ContextPtr = std::unique_ptr<SSL_CTX, FreeSsl>;

// OpenSSL's own words for what went wrong last on this thread.
absl::Status TlsError(absl::string_view what) {
  char words[256] = "no more is known";
  if (const unsigned long code = ERR_peek_last_error(); code != 0)
    ERR_error_string_n(code, words, sizeof(words));
  ERR_clear_error();
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("TLS: ", what, ": ", words));
}

absl::StatusOr<ContextPtr> ContextOf(const FarTlsFiles& files) {
  ContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return TlsError("no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (SSL_CTX_load_verify_locations(context.get(), files.ca.c_str(), nullptr) !=
      1) {
    return TlsError(files.ca);
  }
  if (files.certificate.empty()) return context;
  if (SSL_CTX_use_certificate_chain_file(context.get(),
                                         files.certificate.c_str()) != 1) {
    return TlsError(files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                  SSL_FILETYPE_PEM) != 1) {
    return TlsError(files.key);
  }
  return context;
}

class TlsStream final : public FarStream {
 public:
  TlsStream(FarSocket socket, SslPtr ssl)
      : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  absl::Status Write(absl::string_view bytes, SteadyTime deadline) override {
    while (!bytes.empty()) {
      const int part =
          static_cast<int>(std::min(bytes.size(), size_t{INT_MAX}));
      const int sent = SSL_write(ssl_.get(), bytes.data(), part);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else {
        RETURN_IF_ERROR(WaitAfter(sent, "write", deadline));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Read(absl::Span<char> into,
                              SteadyTime deadline) override {
    while (true) {
      const int part = static_cast<int>(std::min(into.size(), size_t{INT_MAX}));
      const int got = SSL_read(ssl_.get(), into.data(), part);
      if (got > 0) return static_cast<size_t>(got);
      RETURN_IF_ERROR(WaitAfter(got, "read", deadline));
    }
  }

  absl::Status Connect(SteadyTime deadline) {
    while (true) {
      const int done = SSL_connect(ssl_.get());
      if (done == 1) return absl::OkStatus();
      const absl::Status waited = WaitAfter(done, "handshake", deadline);
      const long verdict = SSL_get_verify_result(ssl_.get());
      if (!waited.ok() && verdict != X509_V_OK) {
        return MakeError(
            ErrorReason::kPermission,
            absl::StrCat("TLS: the server's certificate is not trusted: ",
                         X509_verify_cert_error_string(verdict)));
      }
      RETURN_IF_ERROR(waited);
    }
  }

 private:
  // Until what OpenSSL waits for is there; an error when it waits for nothing.
  absl::Status WaitAfter(int result, absl::string_view what,
                         SteadyTime deadline) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return socket_.WaitFor(POLLIN, deadline);
      case SSL_ERROR_WANT_WRITE:
        return socket_.WaitFor(POLLOUT, deadline);
      case SSL_ERROR_ZERO_RETURN:
        return MakeError(ErrorReason::kStorage, "it hung up");
      default:
        return TlsError(what);
    }
  }

  const FarSocket socket_;
  const SslPtr ssl_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FarStream>> ShakeHands(FarSocket socket,
                                                      const std::string& host,
                                                      const FarTlsFiles& files,
                                                      SteadyTime deadline) {
  ERR_clear_error();
  ASSIGN_OR_RETURN(const ContextPtr context, ContextOf(files));
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket.fd()) != 1)
    return TlsError("no connection");
  // A number is looked for among the certificate's addresses, a name among its
  // names.
  X509_VERIFY_PARAM* due = SSL_get0_param(ssl.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(due, host.c_str()) != 1) {
    ERR_clear_error();
    if (SSL_set1_host(ssl.get(), host.c_str()) != 1 ||
        SSL_set_tlsext_host_name(ssl.get(), host.c_str()) != 1) {
      return TlsError(absl::StrCat("host name ", host));
    }
  }
  SSL_set_mode(ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  auto stream = std::make_unique<TlsStream>(std::move(socket), std::move(ssl));
  RETURN_IF_ERROR(stream->Connect(deadline));
  return std::unique_ptr<FarStream>(std::move(stream));
}

}  // namespace kiln

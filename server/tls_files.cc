#include "server/tls_files.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/base/unread_file.h"

namespace kiln {
namespace {

constexpr size_t kMostBytes = 1 << 20;  // of a file

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

// What the files had, PEM.
struct Pems {
  std::string certificate;
  std::string key;
  std::string client_ca;

  friend bool operator==(const Pems&, const Pems&) = default;
};

absl::Status Refuse(const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return MakeError(ErrorReason::kBadOption, absl::StrCat(path, ": ", what));
}

// `forbidden`: bits of the mode that the file may not have.
absl::StatusOr<std::string> Read(const std::string& path, mode_t forbidden) {
  const File file(fopen(path.c_str(), "re"), &fclose);
  if (file == nullptr)
    return UnreadFile(path, errno, ", where kilnd was started");
  struct stat info = {};
  if (fstat(fileno(file.get()), &info) != 0 || (info.st_mode & forbidden) != 0)
    return Refuse(path, absl::StrCat("others may read or write it, expected "
                                     "mode 0600; chmod 600 ",
                                     path));
  std::string bytes(kMostBytes, '\0');
  bytes.resize(fread(bytes.data(), 1, bytes.size(), file.get()));
  return bytes;
}

Bio Reader(const std::string& bytes) {
  return {BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())),
          &BIO_free};
}

absl::StatusOr<Certificate> CertificateIn(const std::string& bytes,
                                          const std::string& path) {
  Certificate certificate(
      PEM_read_bio_X509(Reader(bytes).get(), nullptr, nullptr, nullptr),
      &X509_free);
  if (certificate == nullptr) return Refuse(path, "no certificate in PEM");
  return certificate;
}

absl::StatusOr<PrivateKey> KeyIn(const std::string& bytes,
                                 const std::string& path) {
  // An empty passphrase instead of a question on the terminal.
  PrivateKey key(PEM_read_bio_PrivateKey(Reader(bytes).get(), nullptr, nullptr,
                                         const_cast<char*>("")),
                 &EVP_PKEY_free);
  if (key == nullptr) return Refuse(path, "no private key in PEM");
  return key;
}

// Callers end the handshake then, and hear no more than that it is not good.
bool HasExpired(const Pems& pems, const TlsFiles& files) {
  const auto certificate = CertificateIn(pems.certificate, files.certificate);
  return certificate.ok() &&
         X509_cmp_current_time(X509_get0_notAfter(certificate->get())) < 0;
}

absl::StatusOr<Pems> ReadPems(const TlsFiles& files) {
  Pems pems;
  ASSIGN_OR_RETURN(pems.certificate, Read(files.certificate, 0));
  ASSIGN_OR_RETURN(const Certificate certificate,
                   CertificateIn(pems.certificate, files.certificate));
  ASSIGN_OR_RETURN(pems.key, Read(files.key, 0077));
  ASSIGN_OR_RETURN(const PrivateKey key, KeyIn(pems.key, files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return Refuse(files.key,
                  absl::StrCat("not the key of ", files.certificate,
                               "; tls_certificate and tls_key must belong "
                               "together"));
  if (files.client_ca.empty()) return pems;
  ASSIGN_OR_RETURN(pems.client_ca, Read(files.client_ca, 0));
  RETURN_IF_ERROR(CertificateIn(pems.client_ca, files.client_ca).status());
  return pems;
}

// What serves, for gRPC, which asks for each connection whether there is something
// else. Thread-safe.
class ServingPems {
 public:
  explicit ServingPems(TlsFiles files) : files_(std::move(files)) {}

  // As grpc_ssl_server_certificate_config_callback.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* pems, grpc_ssl_server_certificate_config** config) {
    return static_cast<ServingPems*>(pems)->Give(config);
  }

 private:
  grpc_ssl_certificate_config_reload_status Give(
      grpc_ssl_server_certificate_config** config) {
    MutexLock lock(&mu_);
    if (!Reread()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {
        .private_key = pems_.key.c_str(),
        .cert_chain = pems_.certificate.c_str()};
    // Callers are told whose certificates are good here. gRPC insists on some, also
    // where it asks nobody for one.
    const std::string& ca =
        files_.client_ca.empty() ? pems_.certificate : pems_.client_ca;
    *config = grpc_ssl_server_certificate_config_create(ca.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  // Whether there is something new.
  bool Reread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const SteadyTime now = SteadyNow();
    const bool is_first = pems_.key.empty();
    if (!is_first && Between(read_, now) < files_.reread) return false;
    read_ = now;
    absl::StatusOr<Pems> read = ReadPems(files_);
    if (!read.ok()) {
      const std::string why(read.status().message());
      if (std::exchange(not_taken_, why) != why)
        LogWarning("tls.not_taken", {{"error", why}});
      return false;
    }
    not_taken_.clear();
    const bool is_new = *read != pems_;
    if (is_new) pems_ = *std::move(read);
    const bool was_expired = std::exchange(expired_, HasExpired(pems_, files_));
    if (expired_ && !was_expired)
      LogWarning("tls.expired", {{"certificate", files_.certificate}});
    if (!is_new) return false;
    if (!is_first)
      LogInfo("tls.replaced", {{"certificate", files_.certificate}});
    return true;
  }

  const TlsFiles files_;
  Mutex mu_;
  Pems pems_ ABSL_GUARDED_BY(mu_);  // empty until the first time
  SteadyTime read_ ABSL_GUARDED_BY(mu_);
  std::string not_taken_ ABSL_GUARDED_BY(mu_);  // why, as it was told
  bool expired_ ABSL_GUARDED_BY(mu_) = false;   // as it was told
};

// What numbers a connection, among the properties of its peer.
constexpr char kConnection[] = "kiln_connection";

// The number of the connection that a call came over, which its first call gives it.
// gRPC may read two calls of one at once.
class ConnectionNumbers {
 public:
  uint64_t Of(grpc_auth_context* peer, BegunCalls& begun)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    grpc_auth_property_iterator rows =
        grpc_auth_context_find_properties_by_name(peer, kConnection);
    if (const grpc_auth_property* row = grpc_auth_property_iterator_next(&rows))
      return NumberIn(absl::string_view(row->value, row->value_length));
    const uint64_t number = begun.NewConnection();
    grpc_auth_context_add_cstring_property(peer, kConnection,
                                           absl::StrCat(number).c_str());
    return number;
  }

  static uint64_t NumberIn(absl::string_view text) {
    uint64_t number = 0;
    return absl::SimpleAtoi(text, &number) ? number : 0;
  }

 private:
  Mutex mu_;  // of the property's place in each peer
};

// gRPC's C++ has certificates that are read again, but takes a key and a certificate
// that do not belong together, and then closes every connection. Its C has what asks
// us for a pair.
class ServingCredentials final : public grpc::ServerCredentials {
 public:
  ServingCredentials(const TlsFiles& files, BegunCalls* begun)
      : pems_(files),
        begun_(begun),
        // Who shows no certificate may show a token. gRPC sees that a caller has the key
        // of its certificate; whose that is the gatekeeper looks at with each call
        // (client_certificates.h).
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                files.client_ca.empty()
                    ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY,
                &ServingPems::Fetch, &pems_))) {
    if (begun == nullptr) return;
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_,
        {.process = &Begin, .destroy = [](void*) {}, .state = this});
  }
  ~ServingCredentials() override {
    grpc_server_credentials_release(credentials_);
  }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // As grpc_auth_metadata_processor::process, on the thread that has read the headers.
  static void Begin(void* self, grpc_auth_context* peer, const grpc_metadata*,
                    size_t, grpc_process_auth_metadata_done_cb done,
                    void* call) {
    auto& credentials = *static_cast<ServingCredentials*>(self);
    const bool taken = credentials.begun_->Begin(
        credentials.numbers_.Of(peer, *credentials.begun_));
    done(call, nullptr, 0, nullptr, 0,
         taken ? GRPC_STATUS_OK : GRPC_STATUS_UNAVAILABLE,
         taken ? nullptr : "connection: has begun too many calls at once");
  }

  ServingPems pems_;
  BegunCalls* const begun_;
  ConnectionNumbers numbers_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  return ReadPems(files).status();
}

std::shared_ptr<grpc::ServerCredentials> ServerTls(const TlsFiles& files,
                                                   BegunCalls* begun) {
  return std::make_shared<ServingCredentials>(files, begun);
}

uint64_t TlsConnection(const grpc::AuthContext& peer) {
  const std::vector<grpc::string_ref> found =
      peer.FindPropertyValues(kConnection);
  return found.empty() ? 0
                       : ConnectionNumbers::NumberIn(
                             {found.front().data(), found.front().size()});
}

}  // namespace kiln

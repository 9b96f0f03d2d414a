#include "server/tls_files.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr unsigned kRereadSeconds = 5;

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using PrivateKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

absl::Status Refuse(const std::string& path, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(path, ": ", what));
}

absl::StatusOr<File> Open(const std::string& path) {
  File file(fopen(path.c_str(), "re"), &fclose);
  if (file == nullptr)
    return Refuse(path, absl::StrCat("can't be read: ", strerror(errno)));
  return file;
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, Open(path));
  Certificate certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr),
                          &X509_free);
  if (certificate == nullptr) return Refuse(path, "no certificate in PEM");
  return certificate;
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& path) {
  ASSIGN_OR_RETURN(const File file, Open(path));
  struct stat info = {};
  if (fstat(fileno(file.get()), &info) != 0 || (info.st_mode & 0077) != 0)
    return Refuse(path, "others may read or write it; mode 0600 is due");
  // An empty passphrase instead of a question on the terminal.
  PrivateKey key(
      PEM_read_PrivateKey(file.get(), nullptr, nullptr, const_cast<char*>("")),
      &EVP_PKEY_free);
  if (key == nullptr) return Refuse(path, "no private key in PEM");
  return key;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ReadCertificate(files.certificate));
  ASSIGN_OR_RETURN(const PrivateKey key, ReadKey(files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return Refuse(files.key,
                  absl::StrCat("not the key of ", files.certificate));
  if (files.client_ca.empty()) return absl::OkStatus();
  return ReadCertificate(files.client_ca).status();
}

std::shared_ptr<grpc::ServerCredentials> ServerTls(const TlsFiles& files) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(
      std::make_shared<tls::FileWatcherCertificateProvider>(
          files.key, files.certificate, kRereadSeconds));
  options.watch_identity_key_cert_pairs();
  if (files.client_ca.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    // Who shows none may show a token. gRPC sees that a caller has the key of its
    // certificate; whose that is the gatekeeper looks at with each call
    // (client_certificates.h).
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

}  // namespace kiln

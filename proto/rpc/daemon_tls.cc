#include "proto/rpc/daemon_tls.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"
#include "proto/base/unread_file.h"

namespace kiln {
namespace {

constexpr unsigned kRereadSeconds = 5;
constexpr size_t kMaxTokenBytes = 4096;
// Many times what a list of CAs has.
constexpr size_t kMaxFileBytes = size_t{16} << 20;

absl::Status Refuse(const std::string& subject, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(subject, ": ", what));
}

// What a file holds and whose it is: of the file that was opened, whatever lies
// at its path a moment later.
struct ReadFile {
  std::string text;
  struct stat info = {};
};

absl::StatusOr<ReadFile> Read(const std::string& path) {
  // A pipe without a writer is waited for by nobody.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return UnreadFile(path, errno);
  const absl::Cleanup close_it = [fd] { close(fd); };
  ReadFile file;
  if (fstat(fd, &file.info) != 0) return UnreadFile(path, errno);
  char piece[4096];
  while (true) {
    const ssize_t bytes = read(fd, piece, sizeof(piece));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return UnreadFile(path, errno);
    if (bytes == 0) return file;
    file.text.append(piece, static_cast<size_t>(bytes));
    if (file.text.size() > kMaxFileBytes) {
      return Refuse(path, absl::StrCat("found more than ", kMaxFileBytes,
                                       " bytes, expected fewer"));
    }
  }
}

// A secret's group may read it, as a service's user does that is not its owner.
absl::Status CheckPrivate(const std::string& path, const struct stat& info) {
  if ((info.st_mode & 0027) == 0) return absl::OkStatus();
  return Refuse(
      path,
      absl::StrCat("found mode ", absl::StrFormat("%04o", info.st_mode & 07777),
                   ", expected a file that only its owner writes "
                   "and not everybody reads; chmod 600 ",
                   path));
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(const ReadFile file, Read(path));
  RETURN_IF_ERROR(CheckPrivate(path, file.info));
  const absl::string_view line =
      absl::string_view(file.text).substr(0, file.text.find('\n'));
  const std::string token(absl::StripAsciiWhitespace(line));
  const bool is_token = !token.empty() && token.size() <= kMaxTokenBytes &&
                        token.find_first_not_of(
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz"
                            "0123456789-_.") == std::string::npos;
  if (!is_token) return Refuse(path, "has no token in its first line");
  return token;
}

// Puts the token of a file on each call.
class TokenOfFile final : public grpc::MetadataCredentialsPlugin {
 public:
  TokenOfFile(std::string path, std::string token)
      : path_(std::move(path)),
        changed_(ChangedAt(path_)),
        token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "kiln token"; }

  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<grpc::string, grpc::string>* metadata) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const Moment now = ChangedAt(path_);
    if (now != changed_) {
      // A file that turned bad: the token there was may still be good.
      absl::StatusOr<std::string> token = ReadToken(path_);
      if (token.ok()) token_ = *std::move(token);
      changed_ = now;
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", token_));
    return grpc::Status::OK;
  }

 private:
  // Seconds and nanoseconds, and the file: one may be renamed over another.
  using Moment = std::tuple<time_t, long, ino_t>;
  static Moment ChangedAt(const std::string& path) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) return {};
    return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino};
  }

  const std::string path_;
  Mutex mu_;
  Moment changed_ ABSL_GUARDED_BY(mu_);
  std::string token_ ABSL_GUARDED_BY(mu_);
};

// What a file with a block of PEM holds, as "-----BEGIN EC PRIVATE KEY-----".
enum class Pem { kCertificate, kPrivateKey };
absl::StatusOr<std::string> ReadPem(const std::string& path, Pem kind) {
  const bool is_key = kind == Pem::kPrivateKey;
  const absl::string_view words = is_key ? "PRIVATE KEY" : "CERTIFICATE";
  ASSIGN_OR_RETURN(ReadFile file, Read(path));
  if (!absl::StrContains(file.text, absl::StrCat(words, "-----")))
    return Refuse(path, absl::StrCat("found no ", words, " in PEM"));
  if (is_key) RETURN_IF_ERROR(CheckPrivate(path, file.info));
  return std::move(file.text);
}

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

Bio Reader(const std::string& bytes) {
  return {BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())),
          &BIO_free};
}

// What is shown to the daemon. With a key of another certificate each handshake
// would end without a word that says so.
absl::Status CheckPair(const DaemonTls& tls) {
  if (tls.certificate.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string chain,
                   ReadPem(tls.certificate, Pem::kCertificate));
  ASSIGN_OR_RETURN(const std::string secret,
                   ReadPem(tls.key, Pem::kPrivateKey));
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(Reader(chain).get(), nullptr, nullptr, nullptr),
      &X509_free);
  // An empty passphrase instead of a question on the terminal.
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(Reader(secret).get(), nullptr, nullptr,
                              const_cast<char*>("")),
      &EVP_PKEY_free);
  const bool is_pair =
      certificate != nullptr && key != nullptr &&
      X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (certificate == nullptr)
    return Refuse(tls.certificate, "its first certificate can't be read");
  if (key == nullptr)
    return Refuse(tls.key, "can't be read; give a key without a passphrase");
  if (is_pair) return absl::OkStatus();
  return Refuse(tls.key,
                absl::StrCat("is not the key of ", tls.certificate,
                             "; give a certificate and the key that belongs "
                             "to it (--tls-certificate, --tls-key)"));
}

absl::Status CheckTogether(const std::string& tcp, const DaemonTls& tls) {
  const std::string daemon = absl::StrCat("daemon at ", tcp);
  if (tls.certificate.empty() != tls.key.empty()) {
    return Refuse(daemon,
                  "only one of a TLS certificate and its key is set; set both");
  }
  if (!tls.ca.empty()) return absl::OkStatus();
  if (!tls.certificate.empty() || !tls.token_file.empty()) {
    return Refuse(daemon,
                  "a certificate or a token is shown over TLS alone; set the "
                  "TLS CA file too");
  }
  if (CheckLoopback(tcp).ok()) return absl::OkStatus();
  return Refuse(
      daemon,
      "is on another machine, which requires TLS; set the TLS CA file, "
      "and a token file or a certificate with its key");
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(
    const std::string& tcp, const DaemonTls& tls) {
  RETURN_IF_ERROR(CheckTogether(tcp, tls));
  if (tls.ca.empty()) return grpc::InsecureChannelCredentials();
  RETURN_IF_ERROR(
      Annotate(ReadPem(tls.ca, Pem::kCertificate).status(), "TLS CA"));
  RETURN_IF_ERROR(CheckPair(tls));
  namespace experimental = grpc::experimental;
  experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<experimental::FileWatcherCertificateProvider>(
          tls.key, tls.certificate, tls.ca, kRereadSeconds));
  options.watch_root_certs();
  if (!tls.certificate.empty()) options.watch_identity_key_cert_pairs();
  auto channel = experimental::TlsCredentials(options);
  if (tls.token_file.empty()) return channel;
  absl::StatusOr<std::string> token = ReadToken(tls.token_file);
  if (!token.ok()) return Annotate(token.status(), "token file");
  return grpc::CompositeChannelCredentials(
      channel,
      grpc::MetadataCredentialsFromPlugin(
          std::make_unique<TokenOfFile>(tls.token_file, *std::move(token))));
}

}  // namespace kiln

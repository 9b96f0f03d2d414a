#include "proto/rpc/daemon_tls.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
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

namespace kiln {
namespace {

constexpr unsigned kRereadSeconds = 5;
constexpr size_t kMaxTokenBytes = 4096;

absl::Status Refuse(const std::string& subject, absl::string_view what) {
  return MakeError(ErrorReason::kBadOption, absl::StrCat(subject, ": ", what));
}

absl::Status CantBeRead(const std::string& path) {
  return Refuse(path, absl::StrCat("can't be read: ", std::strerror(errno)));
}

// A secret's group may read it, as a service's user does that is not its owner.
absl::Status CheckPrivate(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return CantBeRead(path);
  if ((info.st_mode & 0027) == 0) return absl::OkStatus();
  return Refuse(
      path,
      absl::StrCat("found mode ", absl::StrFormat("%04o", info.st_mode & 07777),
                   ", expected a file that only its owner writes "
                   "and not everybody reads; chmod 600 ",
                   path));
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  RETURN_IF_ERROR(CheckPrivate(path));
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!in || (!std::getline(in, line) && errno != 0)) return CantBeRead(path);
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

// A file with a block of PEM, as "-----BEGIN EC PRIVATE KEY-----". `kind`: the end
// of that.
absl::Status CheckPem(const std::string& path, absl::string_view kind) {
  if (path.empty()) return absl::OkStatus();
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    if (errno != 0) return CantBeRead(path);
  }
  if (absl::StrContains(text.str(), absl::StrCat(kind, "-----")))
    return absl::OkStatus();
  return Refuse(path, absl::StrCat("found no ", kind, " in PEM"));
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
  RETURN_IF_ERROR(CheckPem(tls.ca, "CERTIFICATE"));
  RETURN_IF_ERROR(CheckPem(tls.certificate, "CERTIFICATE"));
  RETURN_IF_ERROR(CheckPem(tls.key, "PRIVATE KEY"));
  if (!tls.key.empty()) RETURN_IF_ERROR(CheckPrivate(tls.key));
  namespace experimental = grpc::experimental;
  experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<experimental::FileWatcherCertificateProvider>(
          tls.key, tls.certificate, tls.ca, kRereadSeconds));
  options.watch_root_certs();
  if (!tls.certificate.empty()) options.watch_identity_key_cert_pairs();
  auto channel = experimental::TlsCredentials(options);
  if (tls.token_file.empty()) return channel;
  ASSIGN_OR_RETURN(std::string token, ReadToken(tls.token_file));
  return grpc::CompositeChannelCredentials(
      channel,
      grpc::MetadataCredentialsFromPlugin(
          std::make_unique<TokenOfFile>(tls.token_file, std::move(token))));
}

}  // namespace kiln

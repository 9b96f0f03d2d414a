#include "server/open_far_store.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/far/peer_far_store.h"
#include "cache/far/redis_far_store.h"
#include "proto/base/status.h"
#include "server/access/private_file.h"

namespace kiln {
namespace {

constexpr int64_t kMaxSecretBytes = 4096;

// The first line of a private file. `word`: "[far] password_file".
absl::StatusOr<std::string> SecretIn(const std::string& path,
                                     absl::string_view word) {
  const std::string where = absl::StrCat(word, " ", path);
  absl::StatusOr<std::string> text = ReadPrivateFile(path, kMaxSecretBytes);
  if (absl::IsNotFound(text.status()))
    return MakeError(ErrorReason::kStorage, absl::StrCat(where, ": not there"));
  if (!text.ok()) return Annotate(text.status(), word);
  std::string secret = text->substr(0, text->find('\n'));
  if (!secret.empty()) return secret;
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(where, ": its first line is empty"));
}

absl::Status CheckReadable(const std::string& path) {
  if (path.empty() || access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat("[far] ", path, ": ", strerror(errno)));
}

absl::StatusOr<std::shared_ptr<FarStore>> OpenPeer(const Config& config) {
  if (!config.far_token_file.empty()) {
    RETURN_IF_ERROR(
        SecretIn(config.far_token_file, "[far] token_file").status());
  }
  return PeerFarStore::Open({.address = config.far_peer,
                             .tls = {.ca = config.far_tls_ca,
                                     .certificate = config.far_tls_certificate,
                                     .key = config.far_tls_key,
                                     .token_file = config.far_token_file},
                             .max_record_bytes = config.far_max_record_bytes});
}

}  // namespace

absl::StatusOr<std::shared_ptr<FarStore>> OpenFarStore(const Config& config) {
  if (!config.far_peer.empty()) return OpenPeer(config);
  if (config.far_addresses.empty()) return nullptr;
  RedisFarStore::Options options;
  for (const std::string& address : config.far_addresses) {
    ASSIGN_OR_RETURN(HostPort seed, ParseHostPort(address));
    options.seeds.push_back(std::move(seed));
  }
  options.tls = {.ca = config.far_tls_ca,
                 .certificate = config.far_tls_certificate,
                 .key = config.far_tls_key};
  for (const std::string& file :
       {options.tls.ca, options.tls.certificate, options.tls.key})
    RETURN_IF_ERROR(CheckReadable(file));
  options.user = config.far_user;
  if (!config.far_password_file.empty()) {
    ASSIGN_OR_RETURN(options.password,
                     SecretIn(config.far_password_file, "[far] password_file"));
  }
  options.ttl = config.far_ttl;
  options.max_record_bytes = config.far_max_record_bytes;
  return std::make_shared<RedisFarStore>(options);
}

}  // namespace kiln

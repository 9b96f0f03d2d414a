#include "server/access/token_store.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <array>
#include <functional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "proto/key/token_name.h"
#include "server/access/private_file.h"

namespace kiln {
namespace {

using Tokens = std::map<std::string, wire::Token, std::less<>>;

constexpr char kName[] = "tokens";
constexpr size_t kSecretBytes = 32;
constexpr int64_t kMaxFileBytes = int64_t{16} << 20;

absl::Status Unknown(absl::string_view what) {
  return MakeError(ErrorReason::kUnauthenticated, absl::StrCat("token ", what));
}

// Names are shown in messages: an enemy's may be anything.
std::string Printable(absl::string_view name) {
  return NamespaceNamed(name).ok() && !name.empty() ? std::string(name)
                                                    : "without a name";
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Grant GrantOf(const wire::Token& token) {
  Grant grant;
  grant.role = RoleNamed(token.role()).value_or(Role::kReader);
  grant.namespaces.assign(token.namespaces().begin(), token.namespaces().end());
  return grant;
}

absl::Status CheckToken(const wire::Token& token) {
  if (!RoleNamed(token.role()).has_value() ||
      token.secret_sha256().size() != Digest::kBytes) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("token ", Printable(token.name()),
                                  ": no role or no hash of a secret"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tokens> ReadTokens(const OpenFolder& folder) {
  const std::string path = folder.PathOf(kName);
  const absl::StatusOr<std::string> text =
      ReadPrivateFile(folder, kName, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return Tokens();
  RETURN_IF_ERROR(text.status());
  wire::TokenFile file;
  if (!google::protobuf::TextFormat::ParseFromString(*text, &file)) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat(path, ": not a list of tokens"));
  }
  Tokens tokens;
  for (wire::Token& token : *file.mutable_tokens()) {
    RETURN_IF_ERROR(Annotate(CheckToken(token), path));
    std::string name = token.name();
    tokens[std::move(name)] = std::move(token);
  }
  return tokens;
}

absl::Status WriteTokens(const OpenFolder& folder, const Tokens& tokens) {
  wire::TokenFile file;
  for (const auto& [name, token] : tokens) *file.add_tokens() = token;
  std::string text;
  google::protobuf::TextFormat::PrintToString(file, &text);
  return ReplacePrivateFile(folder, kName, text);
}

absl::Status CheckNew(absl::string_view name, const Grant& grant,
                      absl::Duration life) {
  // One that ends as a token does could not be told from one.
  if (name.empty() || !NamespaceNamed(name).ok() || TokenNameIn(name) != name) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("token: found the name \"", TokenNameIn(name),
                                  "\", due 1 to ", kMaxNamespace,
                                  " of a-z, 0-9, '-', '_' and '.'"));
  }
  if (life <= absl::ZeroDuration() || life > kLongestTokenLife) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("token ", name, ": found a life of ",
                                  absl::FormatDuration(life),
                                  ", expected more than 0 and at most ",
                                  kLongestTokenLife / absl::Hours(24), "d"));
  }
  return Annotate(CheckNamespaces(grant.namespaces),
                  absl::StrCat("token ", name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(
    const OpenFolder& folder, const Clock& clock) {
  ASSIGN_OR_RETURN(Tokens tokens, ReadTokens(folder));
  return absl::WrapUnique(new TokenStore(folder, clock, std::move(tokens)));
}

absl::StatusOr<std::string> TokenStore::Make(absl::string_view name,
                                             const Grant& grant,
                                             absl::Duration life) {
  RETURN_IF_ERROR(CheckNew(name, grant, life));
  std::array<unsigned char, kSecretBytes> random;
  if (RAND_bytes(random.data(), random.size()) != 1) {
    return absl::InternalError("token: the machine gives no random bytes");
  }
  const std::string secret = absl::WebSafeBase64Escape(absl::string_view(
      reinterpret_cast<const char*>(random.data()), random.size()));
  const absl::Time now = clock_.Now();
  wire::Token token;
  token.set_name(std::string(name));
  token.set_secret_sha256(Sha256Of(secret).ToBytes());
  token.set_role(std::string(RoleName(grant.role)));
  for (const std::string& each : grant.namespaces) token.add_namespaces(each);
  token.set_made_unix_ms(absl::ToUnixMillis(now));
  token.set_expires_unix_ms(absl::ToUnixMillis(now + life));

  MutexLock writing(&write_mu_);
  {
    MutexLock lock(&mu_);
    if (tokens_.contains(name)) {
      return MakeError(
          ErrorReason::kBadOption,
          absl::StrCat("token ", name, ": is there already; revoke it first"));
    }
    if (tokens_.size() >= kMaxTokens) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("token ", name, ": found ", kMaxTokens,
                                    " tokens, which is the most; revoke some"));
    }
  }
  RETURN_IF_ERROR(Write(&token));
  return absl::StrCat(name, ".", secret);
}

absl::Status TokenStore::Revoke(absl::string_view given) {
  const absl::string_view name = TokenNameIn(given);
  {
    MutexLock lock(&mu_);
    const auto token = tokens_.find(name);
    if (token == tokens_.end() && !unwritten_.contains(name)) {
      return absl::NotFoundError(
          absl::StrCat("token ", absl::CEscape(name), ": there is none"));
    }
    if (token != tokens_.end()) tokens_.erase(token);
    unwritten_.emplace(name);
  }
  MutexLock writing(&write_mu_);
  return Write(nullptr);
}

absl::Status TokenStore::Write(const wire::Token* made) {
  Tokens tokens;
  std::set<std::string, std::less<>> gone;
  {
    MutexLock lock(&mu_);
    tokens = tokens_;
    gone = unwritten_;
  }
  if (made != nullptr) tokens[made->name()] = *made;
  RETURN_IF_ERROR(WriteTokens(folder_, tokens));
  MutexLock lock(&mu_);
  if (made != nullptr) tokens_[made->name()] = *made;
  // Who was revoked during the write waits for the next.
  for (const std::string& name : gone) unwritten_.erase(name);
  return absl::OkStatus();
}

absl::StatusOr<Caller> TokenStore::CallerOf(absl::string_view shown) const {
  const size_t dot = shown.rfind('.');
  if (dot == absl::string_view::npos) {
    return MakeError(ErrorReason::kUnauthenticated,
                     "token: what was shown is not a token; expected "
                     "NAME.SECRET, as `compilectl tokens add` prints it");
  }
  const absl::string_view name = shown.substr(0, dot);
  const Digest hash = Sha256Of(shown.substr(dot + 1));
  MutexLock lock(&mu_);
  const auto found = tokens_.find(name);
  if (found == tokens_.end() ||
      !SameBytes(found->second.secret_sha256(), hash.bytes())) {
    return Unknown(absl::StrCat(Printable(name),
                                ": not known; it was revoked or never made"));
  }
  const wire::Token& token = found->second;
  const absl::Time expires = absl::FromUnixMillis(token.expires_unix_ms());
  if (expires <= clock_.Now()) {
    return Unknown(absl::StrCat(
        Printable(name), ": expired at ",
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", expires, absl::UTCTimeZone())));
  }
  return Caller{absl::StrCat("token:", name), {GrantOf(token)}};
}

std::vector<wire::Token> TokenStore::List() const {
  std::vector<wire::Token> list;
  MutexLock lock(&mu_);
  for (const auto& [name, token] : tokens_) {
    list.push_back(token);
    list.back().clear_secret_sha256();
  }
  return list;
}

}  // namespace kiln

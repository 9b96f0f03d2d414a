#include "server/access/gatekeeper.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/tls_files.h"

namespace kiln {
namespace {

constexpr char kPlain[] = "plain";

absl::string_view View(grpc::string_ref text) {
  return {text.data(), text.size()};
}

std::string UserIdentity(uid_t user) { return absl::StrCat("uid:", user); }

Grant Everywhere(Role role) { return {role, {std::string(kEveryNamespace)}}; }

// The token that a call shows, if any.
std::optional<absl::string_view> BearerToken(
    const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto row = metadata.find("authorization");
  if (row == metadata.end()) return std::nullopt;
  absl::string_view value = View(row->second);
  // Another scheme is no token, and then not a good one.
  constexpr absl::string_view kScheme = "Bearer ";
  if (!absl::StartsWithIgnoreCase(value, kScheme)) return "";
  return value.substr(kScheme.size());
}

// The first that is not empty.
std::string Property(const grpc::AuthContext& peer, const char* property) {
  for (const grpc::string_ref& value : peer.FindPropertyValues(property)) {
    if (!value.empty()) return std::string(value.data(), value.size());
  }
  return "";
}

// The first name of a certificate that was found good.
std::string CertificateName(const grpc::AuthContext& peer) {
  std::string name = Property(peer, GRPC_X509_SAN_PROPERTY_NAME);
  return !name.empty() ? name : Property(peer, GRPC_X509_CN_PROPERTY_NAME);
}

// Whether the certificate that a caller shows is good; empty: they show none.
std::optional<absl::Status> CheckCertificate(const grpc::AuthContext& peer,
                                             ClientCertificates* certificates) {
  const uint64_t connection = TlsConnection(peer);
  if (certificates != nullptr) {
    if (auto known = certificates->Known(connection)) return known;
  }
  const std::string leaf = Property(peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (leaf.empty()) return std::nullopt;
  if (certificates == nullptr) {
    return MakeError(ErrorReason::kUnauthenticated,
                     "certificate: this daemon has no CA of callers");
  }
  return certificates->Check(
      leaf, Property(peer, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME), connection);
}

}  // namespace

bool Gatekeeper::MayConnect(uid_t user) const {
  const std::string identity = UserIdentity(user);
  const std::shared_ptr<const Rules> rules = this->rules();
  return user == owner_ ||
         std::any_of(rules->begin(), rules->end(), [&](const AccessRule& rule) {
           return rule.who == identity;
         });
}

void Gatekeeper::SetRules(std::vector<AccessRule> rules) {
  auto next = std::make_shared<const Rules>(std::move(rules));
  MutexLock lock(&mu_);
  rules_.swap(next);
}

Caller Gatekeeper::Known(std::string identity,
                         std::vector<Grant> grants) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  for (const AccessRule& rule : *rules) {
    if (rule.who == identity) grants.push_back(rule.grant);
  }
  return {std::move(identity), std::move(grants)};
}

absl::StatusOr<Caller> Gatekeeper::Identify(
    const grpc::CallbackServerContext& context, std::string& shown) const {
  const std::string peer = context.peer();
  if (const std::optional<uid_t> user = rooms_.peers.UserOf(peer)) {
    std::vector<Grant> own;
    if (*user == owner_) own.push_back(Everywhere(Role::kAdmin));
    return Known(UserIdentity(*user), std::move(own));
  }
  if (absl::StartsWith(peer, "fd:")) {
    return absl::InternalError(
        absl::StrCat("connection ", peer, ": whose it is is not known"));
  }
  if (network_is_plain_)
    return Known(kPlain,
                 {{Role::kSubmitter, {std::string(kDefaultNamespace)}}});
  return IdentifyOverTls(context, shown);
}

absl::StatusOr<Caller> Gatekeeper::IdentifyOverTls(
    const grpc::CallbackServerContext& context, std::string& shown) const {
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  // Before any token: gRPC has not looked at whose it is.
  const std::optional<absl::Status> certificate =
      auth == nullptr ? std::nullopt
                      : CheckCertificate(*auth, rooms_.certificates);
  if (certificate.has_value() && !certificate->ok()) {
    shown = std::string(certificate->message());
    return *certificate;
  }
  if (const auto token = BearerToken(context)) {
    absl::StatusOr<Caller> caller = rooms_.tokens.CallerOf(*token);
    if (!caller.ok()) shown = std::string(caller.status().message());
    return caller;
  }
  const std::string name =
      certificate.has_value() ? CertificateName(*auth) : "";
  if (!name.empty()) return Known(absl::StrCat("cert:", name), {});
  return MakeError(ErrorReason::kUnauthenticated,
                   absl::StrCat("caller at ", context.peer(),
                                ": shows no token and no certificate; set a "
                                "token file, which `compilectl tokens add` "
                                "makes, or a certificate"));
}

absl::StatusOr<Caller> Gatekeeper::Admit(
    const grpc::CallbackServerContext& context) const {
  std::string shown;
  absl::StatusOr<Caller> caller = Identify(context, shown);
  if (!caller.ok()) {
    rooms_.counters.Add(Count::kCallersRefused);
    // The port changes with each try, and is nobody's name.
    const std::string peer = context.peer();
    rooms_.audit.Record(peer.substr(0, peer.rfind(':')), "call", shown,
                        caller.status());
  }
  return caller;
}

absl::Status Gatekeeper::Require(const Caller& caller, Role role,
                                 absl::string_view cache_namespace,
                                 absl::string_view what,
                                 absl::string_view subject) const {
  return Judge(caller, what, subject.empty() ? cache_namespace : subject,
               caller.Require(role, cache_namespace, what));
}

absl::Status Gatekeeper::RequireSomewhere(const Caller& caller, Role role,
                                          absl::string_view what) const {
  return Judge(caller, what, "", caller.RequireSomewhere(role, what));
}

absl::Status Gatekeeper::Judge(const Caller& caller, absl::string_view what,
                               absl::string_view subject,
                               absl::Status allowed) const {
  if (!allowed.ok()) {
    rooms_.counters.Add(Count::kCallersRefused);
    rooms_.audit.Record(caller.identity, what, subject, allowed);
  }
  return allowed;
}

void Gatekeeper::Record(const Caller& caller, absl::string_view what,
                        absl::string_view subject,
                        const absl::Status& outcome) const {
  rooms_.audit.Record(caller.identity, what, subject, outcome);
}

void Gatekeeper::RecordOften(const Caller& caller, absl::string_view what,
                             absl::string_view subject) const {
  rooms_.audit.RecordOften(caller.identity, what, subject);
}

}  // namespace kiln

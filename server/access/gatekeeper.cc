#include "server/access/gatekeeper.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpc/grpc_security_constants.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"

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
  if (!absl::ConsumePrefix(&value, "Bearer ")) return "";
  return value;
}

// The first name of the peer's verified certificate; empty: it showed none.
std::string CertificateName(const grpc::AuthContext& peer) {
  for (const char* property :
       {GRPC_X509_SAN_PROPERTY_NAME, GRPC_X509_CN_PROPERTY_NAME}) {
    for (const grpc::string_ref& name : peer.FindPropertyValues(property)) {
      if (!name.empty()) return std::string(name.data(), name.size());
    }
  }
  return "";
}

}  // namespace

bool Gatekeeper::MayConnect(uid_t user) const {
  const std::string identity = UserIdentity(user);
  return user == options_.owner ||
         std::any_of(
             options_.rules.begin(), options_.rules.end(),
             [&](const AccessRule& rule) { return rule.who == identity; });
}

Caller Gatekeeper::Known(std::string identity,
                         std::vector<Grant> grants) const {
  for (const AccessRule& rule : options_.rules) {
    if (rule.who == identity) grants.push_back(rule.grant);
  }
  return {std::move(identity), std::move(grants)};
}

absl::StatusOr<Caller> Gatekeeper::Identify(
    const grpc::CallbackServerContext& context) const {
  const std::string peer = context.peer();
  if (const std::optional<uid_t> user = rooms_.peers.UserOf(peer)) {
    std::vector<Grant> own;
    if (*user == options_.owner) own.push_back(Everywhere(Role::kAdmin));
    return Known(UserIdentity(*user), std::move(own));
  }
  if (absl::StartsWith(peer, "fd:")) {
    return absl::InternalError(
        absl::StrCat("connection ", peer, ": whose it is is not known"));
  }
  if (options_.network_is_plain)
    return Known(kPlain,
                 {{Role::kSubmitter, {std::string(kDefaultNamespace)}}});
  if (const auto token = BearerToken(context)) {
    return rooms_.tokens.CallerOf(*token);
  }
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  const std::string name = auth == nullptr ? "" : CertificateName(*auth);
  if (!name.empty()) return Known(absl::StrCat("cert:", name), {});
  return MakeError(ErrorReason::kUnauthenticated,
                   absl::StrCat("caller at ", peer,
                                ": shows no token and no certificate; set a "
                                "token file, which `compilectl tokens add` "
                                "makes, or a certificate"));
}

absl::StatusOr<Caller> Gatekeeper::Admit(
    const grpc::CallbackServerContext& context) const {
  absl::StatusOr<Caller> caller = Identify(context);
  if (!caller.ok()) {
    rooms_.counters.Add(Count::kCallersRefused);
    // The port changes with each try, and is nobody's name.
    const std::string peer = context.peer();
    rooms_.audit.Record(peer.substr(0, peer.rfind(':')), "call", "",
                        caller.status());
  }
  return caller;
}

absl::Status Gatekeeper::Require(const Caller& caller, Role role,
                                 absl::string_view cache_namespace,
                                 absl::string_view what) const {
  return Judge(caller, what, cache_namespace,
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

}  // namespace kiln

#include "server/access/caller.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"

namespace kiln {
namespace {

constexpr absl::string_view kRoleNames[] = {"reader", "submitter", "publisher",
                                            "admin"};

bool Covers(const Grant& grant, absl::string_view cache_namespace) {
  return std::any_of(grant.namespaces.begin(), grant.namespaces.end(),
                     [cache_namespace](const std::string& granted) {
                       return granted == kEveryNamespace ||
                              granted == cache_namespace;
                     });
}

std::string GrantsText(const std::vector<Grant>& grants) {
  if (grants.empty()) return "no role";
  return absl::StrJoin(grants, ", ", [](std::string* out, const Grant& grant) {
    absl::StrAppend(out, RoleName(grant.role), " in ",
                    absl::StrJoin(grant.namespaces, " and "));
  });
}

absl::Status Refuse(const Caller& caller, Role role, absl::string_view where,
                    absl::string_view what) {
  return MakeError(
      ErrorReason::kPermission,
      absl::StrCat(what, ": caller ", caller.identity, " has ",
                   GrantsText(caller.grants), "; this requires the role ",
                   RoleName(role), " in ", where,
                   ", which the daemon's owner gives in an [[access]] table "
                   "or with a token (`compilectl tokens add`)"));
}

}  // namespace

absl::string_view RoleName(Role role) {
  return kRoleNames[static_cast<int>(role)];
}

std::optional<Role> RoleNamed(absl::string_view name) {
  for (size_t i = 0; i < std::size(kRoleNames); ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

absl::Status CheckNamespaces(const std::vector<std::string>& namespaces) {
  if (namespaces.empty()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat(
            "namespaces: the list is empty, expected one or more, or \"",
            kEveryNamespace, "\""));
  }
  for (const std::string& name : namespaces) {
    if (name == kEveryNamespace) continue;
    if (name.empty()) {
      return MakeError(ErrorReason::kBadOption,
                       "namespaces: found an empty name");
    }
    RETURN_IF_ERROR(NamespaceNamed(name).status());
  }
  return absl::OkStatus();
}

absl::Status Caller::Require(Role role, absl::string_view cache_namespace,
                             absl::string_view what) const {
  for (const Grant& grant : grants) {
    if (grant.role >= role && Covers(grant, cache_namespace))
      return absl::OkStatus();
  }
  const std::string where = cache_namespace == kEveryNamespace
                                ? "every namespace"
                                : absl::StrCat("namespace ", cache_namespace);
  return Refuse(*this, role, where, what);
}

absl::Status Caller::RequireSomewhere(Role role, absl::string_view what) const {
  for (const Grant& grant : grants) {
    if (grant.role >= role) return absl::OkStatus();
  }
  return Refuse(*this, role, "some namespace", what);
}

}  // namespace kiln

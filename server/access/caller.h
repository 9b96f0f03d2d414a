#ifndef KILN_SERVER_ACCESS_CALLER_H_
#define KILN_SERVER_ACCESS_CALLER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// What a caller may do. Each role may also do what those before it may.
enum class Role {
  kReader,     // look artifacts up
  kSubmitter,  // have graphs compiled
  kPublisher,  // have graphs tuned: everybody's kernels change by it
  kAdmin,      // list, purge, drain, make tokens
};

// "reader".
absl::string_view RoleName(Role role);
std::optional<Role> RoleNamed(absl::string_view name);

// Stands for all namespaces, also in a grant.
inline constexpr absl::string_view kEveryNamespace = "*";

// A role in some namespaces.
struct Grant {
  Role role = Role::kReader;
  std::vector<std::string> namespaces;

  friend bool operator==(const Grant&, const Grant&) = default;
};

// INVALID_ARGUMENT BAD_OPTION unless each is a namespace or kEveryNamespace, and
// there is one.
absl::Status CheckNamespaces(const std::vector<std::string>& namespaces);

// Who makes a call, as the door found out, and what the daemon's owner lets
// them do. A value.
struct Caller {
  // "uid:1000", "cert:trainer.example", "token:ci", "plain".
  std::string identity;
  std::vector<Grant> grants;

  // PERMISSION_DENIED PERMISSION, naming the caller, `what` and the role that is
  // due, unless one of the grants gives it. With kEveryNamespace only a grant
  // for every namespace does.
  absl::Status Require(Role role, absl::string_view cache_namespace,
                       absl::string_view what) const;
  // The same, of a role that holds in any namespace.
  absl::Status RequireSomewhere(Role role, absl::string_view what) const;
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_CALLER_H_

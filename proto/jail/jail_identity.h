#ifndef KILN_PROTO_JAIL_JAIL_IDENTITY_H_
#define KILN_PROTO_JAIL_JAIL_IDENTITY_H_

#include <sys/types.h>

#include <optional>

#include "absl/status/status.h"
#include "proto/jail/jail_spec.h"

namespace kiln {

// A user that no other process of this machine is, while the process of number
// `pid` lives; for a root that may become anybody. None otherwise: also in a
// container that has too few users.
std::optional<uid_t> OwnUser(pid_t pid);

// Becomes `user`, of a group of the same number and with no other group. It keeps
// the capabilities that it has in a user namespace where nobody is root.
absl::Status BecomeUser(uid_t user);

// Becomes `user`, when there is one, with no other group; then, and in any case,
// gives up every capability for good, its children's too (no_new_privs).
absl::Status DropRights(std::optional<uid_t> user);

// This process, and all that it starts, is first in line when memory ends. What a
// root with CAP_SYS_RESOURCE says so stays, whatever a child without that right
// writes.
void BeFirstToGo();

// The limits of `spec`, soft and hard. `users_own`: nobody else's processes count against this process's
// number of them. For the process that is to be limited.
absl::Status LimitSelf(const JailSpec& spec, bool users_own);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_IDENTITY_H_

#ifndef KILN_PROTO_JAIL_JAIL_LANDLOCK_H_
#define KILN_PROTO_JAIL_JAIL_LANDLOCK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/jail/jail_view.h"

namespace kiln {

// A descriptor for KeepTo: reads and writes what the view says and no other file,
// binds and connects no TCP port, and, where the kernel knows how (Linux 6.12),
// signals nobody and connects to no abstract socket outside. For who can walk to
// all of the view.
//
// UNIMPLEMENTED when the kernel has no Landlock (Linux 5.13, and enabled); else
// the system's error with the path.
absl::StatusOr<int> OpenRuleset(const JailView& view);

// Lets this process, and none that it starts, write below /proc/self as well:
// CUDA's driver does so when it starts. In the process itself, before KeepTo.
absl::Status AllowOwnProcess(int ruleset);

// Holds this process, and all that it starts, to the ruleset from now on, and
// closes it. Not to be undone. Wants no_new_privs.
absl::Status KeepTo(int ruleset);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_LANDLOCK_H_

#ifndef KILN_PROTO_JAIL_JAIL_SYSCALLS_H_
#define KILN_PROTO_JAIL_JAIL_SYSCALLS_H_

#include "absl/status/status.h"

namespace kiln {

enum class OwnGroups {
  kAllowed,  // its processes have a namespace of their own, with which they end
  kRefused,  // they end as a group, which none may leave
};

enum class Sockets {
  kRefused,
  // Unix sockets that carry connections, but none is made: connect says
  // ECONNREFUSED. CUDA's driver asks so for others of its kind when it starts,
  // and gives up where sockets are refused.
  kUnconnected,
};

// From now on this process, and all that it starts, is refused (EPERM) what no
// compiler does: sockets but for connected pairs, mounts, namespaces, sessions (the
// kernel may give each as large a share of a core as the daemon's whole session),
// looking into other processes or changing their limits and priority, keys, kernel
// modules, BPF, io_uring, shared memory of System V, the clock. Not to be undone.
// Wants no_new_privs.
//
// The system's error when the kernel has no filters.
absl::Status RefuseSystemCalls(OwnGroups groups, Sockets sockets);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_SYSCALLS_H_

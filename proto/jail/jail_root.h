#ifndef KILN_PROTO_JAIL_JAIL_ROOT_H_
#define KILN_PROTO_JAIL_JAIL_ROOT_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/jail/jail_view.h"

namespace kiln {

// Gives this process a root folder that holds the view and nothing else, each
// path where it was: what is readable read-only, no device but those named, a
// /proc of its own processes where the system grants one, to be written only
// with a GPU, /tmp a link to `scratch`. Its working directory becomes `scratch`.
//
//   builder  whom this process becomes (BecomeUser) once it has taken what it
//            shows from the old root, where `builder` may not be able to walk to
//            all of it
//
// For a process in a mount namespace of its own, with CAP_SYS_ADMIN there; once.
// The system's error names the path. Half a root is left then: the process is
// good for its end only.
absl::Status MakeJailRoot(const JailView& view, const std::string& scratch,
                          std::optional<uid_t> builder);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_ROOT_H_

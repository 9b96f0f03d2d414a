#ifndef KILN_PROTO_JAIL_ENTER_JAIL_H_
#define KILN_PROTO_JAIL_ENTER_JAIL_H_

#include <string>
#include <vector>

namespace kiln {

// The first line of a worker's main, before it reads a byte that is not its
// program's or starts a thread. `argv` begins with JailWords (jail_spec.h); the
// words after them come back.
//
// It returns in a child of this process, which is in the strongest jail of the
// spec's range that the machine allows: so is all that it starts from then on. It has
// the lowest priority (lowest_priority.h), unless the spec says that it takes it after
// its hello.
// This process stays outside, idle, and never returns: it tells of the jail on
// descriptor 3 (JailReport), ends the worker with all its processes when the
// other side of descriptor 3 is closed or SIGTERM comes, and ends as the worker
// ended.
//
//   jailer                     this process; outside
//     init                     with namespaces: the first in its own, so that
//                              all others end with it
//       worker                 returns; what it starts are its children
//
// Without a jail, and without words of one, the process ends with 2 and says why
// on stderr.
std::vector<std::string> EnterJail(int argc, char** argv);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_ENTER_JAIL_H_

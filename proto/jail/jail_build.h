#ifndef KILN_PROTO_JAIL_JAIL_BUILD_H_
#define KILN_PROTO_JAIL_JAIL_BUILD_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "proto/jail/jail_spec.h"

namespace kiln {

// What MakeJailed left in this process: it is the jailer, or it is the worker.
struct JailedProcess {
  bool is_worker = false;  // the rest is the jailer's
  pid_t child = -1;        // init with namespaces, else the worker
  pid_t worker = -1;       // the worker's number as the jailer sees it
  // Where init sends the status of the worker's end, an int; -1 without init.
  int news = -1;
};

// Makes a jail of just this level and forks a process that is in it, a group of
// its own. Returns in both. The process has one thread.
//
// In the jailer only: the system's error, with what it was about, when the
// machine does not grant that level; nothing is left of the attempt then.
absl::StatusOr<JailedProcess> MakeJailed(const JailSpec& spec, JailLevel level);

}  // namespace kiln

#endif  // KILN_PROTO_JAIL_JAIL_BUILD_H_

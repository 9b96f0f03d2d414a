// Where this program came from, and what came with it: the Python package, the
// build tree or a system's folders.
//
// Thread-safe: reads the file system only.
#ifndef KILN_CLIENT_COMPILECTL_INSTALLATION_H_
#define KILN_CLIENT_COMPILECTL_INSTALLATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"

namespace kiln {

// Whether this program came with the Python package: kiln/_bin/compilectl.
bool IsInWheel();

// What to type for a daemon: in a wheel no PATH has it, in the tree a command
// builds it.
std::string KilndCommand();

// What a worker of this installation says of itself, run as a kilnd that is
// started here would run it. WORKER_CRASHED and the like where it does not
// answer within 20 seconds. `environment`: NAME=VALUE, what it may see.
absl::StatusOr<wire::HelloReply> AskInstalledWorker(
    std::vector<std::string> environment);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_INSTALLATION_H_

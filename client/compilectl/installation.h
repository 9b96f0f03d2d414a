// How this program was installed: with the Python package, in the build tree, or in the
// system's folders.
//
// Thread-safe: reads the file system only.
#ifndef KILN_CLIENT_COMPILECTL_INSTALLATION_H_
#define KILN_CLIENT_COMPILECTL_INSTALLATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"

namespace kiln {

// Whether this program belongs to the Python package (kiln/_bin/compilectl).
bool IsInWheel();

// The command that starts a daemon. A wheel's kilnd is not on PATH, and in the build tree
// a command builds it first.
std::string KilndCommand();

// Starts a worker of this installation as kilnd would, and returns what it reports about
// itself. `environment` (NAME=VALUE) is all that the worker sees.
//
// Errors: those of a worker, if it does not answer within 20 seconds.
absl::StatusOr<wire::HelloReply> AskInstalledWorker(
    std::vector<std::string> environment);

}  // namespace kiln

#endif  // KILN_CLIENT_COMPILECTL_INSTALLATION_H_

#ifndef KILN_SERVER_SPAWN_H_
#define KILN_SERVER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// The descriptor at which a child finds its end of the socketpair.
inline constexpr int kChildSocketFd = 3;

struct SpawnOptions {
  std::string program;            // a path; nothing is searched
  std::vector<std::string> args;  // without the program's name
  std::vector<std::string> env;   // the whole environment, "NAME=value"
  std::string folder;             // working directory
  std::string output_file;        // takes stdout and stderr; made anew
  int socket_fd = -1;             // becomes kChildSocketFd
};

// Starts a process in a process group of its own, with every descriptor closed
// but 0 (/dev/null), 1, 2 and 3, signals unblocked and at their defaults.
// By posix_spawn: no copy of the daemon's memory is made, whatever its size.
//
// WORKER_DIED, naming the program: absent, not executable, no process left.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace kiln

#endif  // KILN_SERVER_SPAWN_H_

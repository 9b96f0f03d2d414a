#ifndef KILN_CLIENT_CORPUS_RUNNER_PRIVATE_DAEMON_H_
#define KILN_CLIENT_CORPUS_RUNNER_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kiln {

struct PrivateDaemonOptions {
  std::string kilnd;                            // the daemon's program
  std::string worker;                           // the worker's program
  std::vector<std::string> worker_environment;  // "NAME=value"
  std::string folder;  // for socket, database and log; exists
  int workers = 0;     // 0: one a core
};

// A daemon that this process starts for itself and ends in the destructor.
class PrivateDaemon {
 public:
  // Starts the daemon and waits until it serves. UNAVAILABLE, with the tail of its log,
  // if it exits or does not serve within ten seconds.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options);

  // Asks the daemon to drain, and kills it if it does not exit.
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  const std::string& socket() const { return socket_; }

 private:
  PrivateDaemon(pid_t pid, std::string socket)
      : pid_(pid), socket_(std::move(socket)) {}

  const pid_t pid_;
  const std::string socket_;
};

}  // namespace kiln

#endif  // KILN_CLIENT_CORPUS_RUNNER_PRIVATE_DAEMON_H_

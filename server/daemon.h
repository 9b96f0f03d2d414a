#ifndef KILN_SERVER_DAEMON_H_
#define KILN_SERVER_DAEMON_H_

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"
#include "server/config.h"
#include "server/counters.h"

namespace kiln {

class CallExecutor;
class WorkerPool;

inline constexpr absl::string_view kKilndVersion = "0.1.0";

// The daemon. Creates all parts in order, connects them, and destroys them in reverse
// order. kilnd's main owns one, and so do tests. The parts are members of WiredDaemon
// (wired_daemon.h), so that this header includes none of theirs.
class Daemon {
 public:
  // Starts a daemon; returns once its health service says SERVING.
  //
  //   config  has passed CheckConfig; the path of its worker program is absolute
  //   owner   the user who has all rights on the socket
  //   clock   tests pass their own
  //
  // Errors, each naming the path:
  //   STORAGE      the folder, the database or the socket cannot be opened, or
  //                another daemon uses it
  //   PERMISSION   this user may not open it
  //   WORKER_DIED  no worker started
  //   BAD_OPTION   an address cannot be listened on
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const Config& config, uid_t owner,
      std::shared_ptr<const Clock> clock = std::make_shared<RealClock>());

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  // Stops the jobs that Drain did not wait for, and answers every pending call.
  virtual ~Daemon() = default;

  // Blocks until RequestDrain is called, which AdminService.Drain does too, or until
  // the daemon has been idle for the config's idle_exit: no job, and no request that
  // is counted.
  virtual void WaitForDrainRequest() = 0;
  virtual void RequestDrain() = 0;

  // From now on health says NOT_SERVING and new jobs are refused with DRAINING;
  // lookups are still answered. Returns when all jobs have ended and their waiters
  // have their answers, or when the drain's time is up. True if no job was left.
  virtual bool Drain() = 0;

  virtual const Counters& counters() const = 0;
  virtual WorkerPool& pool() = 0;
  virtual CallExecutor& executor() = 0;
  virtual int tcp_port() const = 0;

 protected:
  Daemon() = default;
};

}  // namespace kiln

#endif  // KILN_SERVER_DAEMON_H_

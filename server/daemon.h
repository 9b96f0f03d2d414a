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

// The daemon: all rooms made in order, wired up, and ended in reverse. kilnd's
// main owns one, and so do tests. What it is made of stands in wired_daemon.h, so
// that who includes this reads none of it.
class Daemon {
 public:
  // Starts and serves; returns once the health service says SERVING.
  // `config` has passed CheckConfig; its worker program is absolute.
  // `owner`: the user who may do all over the socket.
  //
  // Errors, each naming the path: STORAGE (folder, database or socket can't be
  // had, or another daemon has it), PERMISSION, WORKER_DIED (no worker says
  // hello), BAD_OPTION (an address).
  // `clock`: a test's own.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const Config& config, uid_t owner,
      std::shared_ptr<const Clock> clock = std::make_shared<RealClock>());

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  // Ends what Drain has not waited for. Answers every call.
  virtual ~Daemon() = default;

  // Waits until someone calls RequestDrain, also through AdminService.Drain, or
  // until nothing has been counted and no job was there for config's idle_exit.
  virtual void WaitForDrainRequest() = 0;
  virtual void RequestDrain() = 0;

  // Health says NOT_SERVING, new jobs are refused with DRAINING, lookups still
  // answered; returns when all jobs have ended and their waiters were answered,
  // or after the drain's time. True when nothing was left.
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

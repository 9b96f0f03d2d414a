#ifndef KILN_SERVER_WORKER_PROCESS_H_
#define KILN_SERVER_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/steady_time.h"
#include "proto/base/work_limits.h"
#include "proto/jail/jail_spec.h"
#include "proto/jail/jailed_child.h"
#include "proto/worker.pb.h"

namespace kiln {

// How workers are started and how much they may take.
struct WorkerLimits {
  std::string program;
  std::vector<std::string> args;
  std::vector<std::string> env;  // "NAME=value", after the base set
  absl::Duration wall = kRequestWall;
  absl::Duration cpu = kRequestCpu;
  int64_t memory_bytes = int64_t{16}
                         << 30;  // that each process may write; 0: any
  JailRange sandbox;
  // One whose jail is weaker than another's was is not taken.
  bool keeps_level = false;
  std::vector<std::string> readable;  // beside the system's own compilers
};

// What differs between the workers of one pool.
struct WorkerStart {
  bool gpu = false;  // it may open the machine's
  // Nobody knows the compilers yet, and the daemon's start waits for this one's hello,
  // which it says at the daemon's own priority. Others have the lowest, as hits go first.
  bool is_first = false;
};

// One compile process in a jail, exec'ed once, then asked many times.
//
// It may crash, hang or talk nonsense: each is an error of one call, after
// which the object is good for its post-mortem words and for destruction only.
//
// One thread, but for pid(), hello(), report() and Interrupt(). Ended with all
// that it started when destroyed.
class WorkerProcess {
 public:
  // Starts it in a new folder `scratch_prefix`-XXXXXX, and waits for its hello.
  //
  // Errors; it had no job yet, so no job is to blame:
  //   NO_TOOLCHAIN  the program can't be executed, or says nothing or nonsense
  //   PERMISSION    the machine grants a weaker jail than limits.sandbox
  //   STORAGE       the folder can't be made
  static absl::StatusOr<std::shared_ptr<WorkerProcess>> Start(
      const WorkerLimits& limits, const WorkerStart& how,
      const std::string& scratch_prefix);

  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends one request and waits for its reply, at most the wall limit. An error
  // that the worker tells of is a reply (WorkReply.error), not an error here.
  //
  // Errors; the process is killed and its last words are in the message:
  //   DEADLINE_EXCEEDED         it hung: the wall limit passed
  //   UNAVAILABLE  WORKER_DIED  it ended, or its frame is not sound
  //   OUT_OF_RANGE TOO_LARGE    the request is over the frame's limit; nothing
  //                             was sent and the process is well
  absl::StatusOr<wire::WorkReply> Call(const wire::WorkRequest& request) {
    return CallWithin(limits_.wall, request);
  }

  // False once it has ended, also between calls.
  bool Alive() const { return !child_->HasEnded(); }

  // True once another request could exceed the process's processor time.
  bool IsWorn() const { return child_->UsedCpu() > limits_.cpu; }

  // False once its scratch folder was removed under it.
  bool HasFolder() const;

  // Makes a Call under way, or the next one, end with WORKER_DIED. From any
  // thread.
  void Interrupt() { child_->Interrupt(); }

  pid_t pid() const { return child_->pid(); }
  const JailReport& report() const { return child_->report(); }
  const wire::HelloReply& hello() const { return hello_; }

 private:
  WorkerProcess(const WorkerLimits& limits, std::unique_ptr<JailedChild> child)
      : limits_(limits), child_(std::move(child)) {}
  absl::StatusOr<wire::WorkReply> CallWithin(absl::Duration wall,
                                             const wire::WorkRequest& request);
  absl::StatusOr<std::string> Exchange(const std::string& request,
                                       SteadyTime deadline);

  const WorkerLimits limits_;
  const std::unique_ptr<JailedChild> child_;
  wire::HelloReply hello_;  // fixed once Start returns
};

}  // namespace kiln

#endif  // KILN_SERVER_WORKER_PROCESS_H_

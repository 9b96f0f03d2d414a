#ifndef KILN_CLIENT_LOCAL_WORKER_H_
#define KILN_CLIENT_LOCAL_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/compile_client.h"
#include "client/timed_lock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "proto/base/work_limits.h"
#include "proto/jail/jailed_child.h"
#include "proto/worker.pb.h"

namespace kiln {

struct LocalWorkerOptions {
  std::string program;       // kiln-worker
  std::string scratch_root;  // a folder for the worker's own is made in it
  // Handed on besides PATH, HOME, LANG and TMPDIR: "LD_LIBRARY_PATH=...".
  std::vector<std::string> environment;
  // That the worker and each of its compilers may write; 0: any.
  int64_t memory_bytes = int64_t{16} << 30;
  // Of planning, and of each build.
  absl::Duration wall = kRequestWall;
};

// A compile worker of this process's own: what a client falls back to when no
// daemon answers in time. Speaks proto/worker.proto over a private socketpair,
// and is in a jail as a daemon's workers are.
// Its artifacts are unsigned, good in this process only and never stored.
//
// One process, started at the first Compile and again after it died. Thread-
// safe; compiles run one after another.
class LocalWorker {
 public:
  explicit LocalWorker(LocalWorkerOptions options);
  // Ends the process and removes its folder.
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

  // Plans, builds every unit, assembles. Only call.deadline is used, which also
  // ends a wait for others' compiles.
  //
  // Errors: those of CanonicalizeRequest and of the worker, with their reason;
  //   NO_TOOLCHAIN       the program cannot be started
  //   WORKER_DIED        it ended in the middle, or hung for all of
  //                      options.wall: over which graph, at what and how, with
  //                      the tail of its stderr
  //   TOO_LARGE          its plan is more than is built (work_limits.h)
  //   DEADLINE_EXCEEDED  in time; the process is ended, its work lost
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request,
                                         const CompileCall& call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What the worker says of itself and of its compilers. Errors: NO_TOOLCHAIN,
  // WORKER_DIED, DEADLINE_EXCEEDED as above.
  absl::StatusOr<wire::HelloReply> Hello(SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status EnsureStarted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `work`, for people: "graph forward_0: planning".
  absl::StatusOr<wire::WorkReply> Ask(wire::WorkRequest request,
                                      absl::string_view work,
                                      SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<CompileOutcome> CompileLocked(
      const wire::CompileRequest& request, SteadyTime deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const LocalWorkerOptions options_;
  TimedLock lock_;  // taken before mu_, so that no thread waits for mu_
  Mutex mu_;
  std::unique_ptr<JailedChild> child_ ABSL_GUARDED_BY(mu_);  // null: none now
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace kiln

#endif  // KILN_CLIENT_LOCAL_WORKER_H_

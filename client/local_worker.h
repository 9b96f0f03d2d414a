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
  std::string scratch_root;  // the worker's scratch folder is made in it
  // Variables that the worker gets besides PATH, HOME, LANG and TMPDIR:
  // "LD_LIBRARY_PATH=...".
  std::vector<std::string> environment;
  // The memory that the worker, and each compiler it runs, may write; 0: no limit.
  int64_t memory_bytes = int64_t{16} << 30;
  // The time limit of planning, and of each build.
  absl::Duration wall = kRequestWall;
};

// A compile worker that this process starts for itself, when no daemon answers in time.
// It speaks proto/worker.proto over a private socketpair and is jailed like a daemon's
// workers. Its artifacts are unsigned; they are used in this process only and never
// stored.
//
// There is one process. It is started by the first Compile, and again after it died.
// Thread-safe; compiles run one after another.
class LocalWorker {
 public:
  explicit LocalWorker(LocalWorkerOptions options);
  // Ends the process and removes its folder.
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

  // Plans the graph, builds every unit and assembles the artifact. Of `call` only the
  // deadline is used; it includes the time spent waiting for compiles of other threads.
  //
  // Errors: those of CanonicalizeRequest and of the worker, with their reason, and
  //   NO_TOOLCHAIN       the program cannot be started
  //   WORKER_DIED        the worker died, or hung for options.wall; the message names
  //                      the graph, the phase and the cause, with the tail of its stderr
  //   TOO_LARGE          the plan exceeds the limits of a build (work_limits.h)
  //   DEADLINE_EXCEEDED  never late; the process is ended and its work is lost
  absl::StatusOr<CompileOutcome> Compile(const wire::CompileRequest& request,
                                         const CompileCall& call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // What the worker reports about itself and its compilers. Errors: NO_TOOLCHAIN,
  // WORKER_DIED, DEADLINE_EXCEEDED as above.
  absl::StatusOr<wire::HelloReply> Hello(SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status EnsureStarted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `work` describes the request in messages: "graph forward_0: planning".
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

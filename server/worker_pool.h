#ifndef KILN_SERVER_WORKER_POOL_H_
#define KILN_SERVER_WORKER_POOL_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/worker.pb.h"
#include "server/build_identity.h"
#include "server/counters.h"
#include "server/worker_process.h"

namespace kiln {

// What goes with a request.
struct WorkLabel {
  Digest key;              // of the job, for people
  std::string graph_name;  // likewise
  wire::Target target;     // what the request's code is for
  // The target's compilers in the build that the answer is stored under; a
  // worker with others may not answer. Empty: any may.
  std::string toolchain;
};

// One request on its way to a worker, and its answer. Thread-safe.
class PendingWork {
 public:
  PendingWork(wire::WorkRequest request, WorkLabel label)
      : request_(std::move(request)), label_(std::move(label)) {}

  // Waits until it is answered; as often and by as many as like. The pool
  // answers everything: a worker that has it at its wall limit, twice at most,
  // what waits in the list after that of those before it, and all at its end.
  // So a wait is bounded by (requests before it / workers + 2) wall limits.
  //
  // Errors: what the worker told of, with its reason; and
  //   UNAVAILABLE  WORKER_DIED  two workers ended or hung over it; the message
  //                             has the last one's stderr tail. Or: the
  //                             machine's compilers are others than those of
  //                             the label; the caller's key is out of date
  //   UNAVAILABLE  DRAINING     the pool ended first
  //   FAILED_PRECONDITION NO_TOOLCHAIN  no worker could be started, twice
  //   UNAVAILABLE  STORAGE      nor a scratch folder made for one
  // The reply lives as long as this.
  absl::StatusOr<const wire::WorkReply*> Wait() ABSL_LOCKS_EXCLUDED(mu_);

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class WorkerPool;
  void Answer(absl::StatusOr<wire::WorkReply> reply) ABSL_LOCKS_EXCLUDED(mu_);

  // Of the one thread that holds the request now.
  wire::WorkRequest request_;
  const WorkLabel label_;
  int attempts_ = 0;  // workers that had it

  mutable Mutex mu_;
  CondVar answered_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<wire::WorkReply> reply_;  // fixed once done_
};

// What `compilectl workers` shows of one.
struct WorkerView {
  int index = 0;
  pid_t pid = 0;  // 0: none now
  std::string state;
  std::string key;  // of its job; empty when idle
  int64_t requests_done = 0;
  int64_t restarts = 0;
  int64_t resident_bytes = 0;
};

// The compile workers: long-lived processes, one thread of ours for each, which
// pulls requests from one list. Builds go before plans and measurements, so
// that what was begun is finished first.
//
// A worker that dies, hangs or talks nonsense is replaced, and its request is
// given to a worker once more. Thread-safe.
class WorkerPool {
 public:
  // Starts `count` workers with scratch folders below `scratch_folder`, and
  // waits for the first hello; the others come when they come. The folders of
  // workers that were another pool's are removed first: the caller sees to it
  // that no other lives there.
  //
  // NO_TOOLCHAIN when none says hello. `counters` outlives the pool.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(
      const WorkerLimits& limits, int count, const std::string& scratch_folder,
      Counters& counters);

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool() { End(); }

  // Interrupts what is under way, answers everything, also what is submitted
  // later, with DRAINING; ends every worker. Once, by one thread; the
  // destructor does it otherwise.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  // Takes a request; the number of those that wait has no bound here: the job
  // queue bounds jobs, and a job's units are bounded by its graph.
  std::shared_ptr<PendingWork> Submit(wire::WorkRequest request,
                                      WorkLabel label = {})
      ABSL_LOCKS_EXCLUDED(mu_);

  // Who compiles now. All workers have the program of the first: one with
  // another (it was replaced on disk) is refused. Their compilers are those
  // that the worker started last found: when the machine's are replaced, a
  // worker that notices ends (toolchain.h), its successor tells of the new
  // ones, and the others make way for successors of their own before their
  // next request.
  wire::HelloReply identity() const ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<const BuildIdentity> build() const ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<WorkerView> Snapshot() const ABSL_LOCKS_EXCLUDED(mu_);
  int size() const { return count_; }

 private:
  struct Slot {
    std::shared_ptr<WorkerProcess> process;  // null: none now
    std::string state = "starting";
    Digest key;
    int64_t requests_done = 0;
    int64_t starts = 0;
  };

  WorkerPool(const WorkerLimits& limits, int count, std::string scratch_folder,
             Counters& counters)
      : limits_(limits),
        count_(count),
        scratch_folder_(std::move(scratch_folder)),
        counters_(counters) {}

  absl::Status WaitForFirstHello() ABSL_LOCKS_EXCLUDED(mu_);
  bool Ending() const ABSL_LOCKS_EXCLUDED(mu_);
  void Drive(int index);
  // Null when the pool ends.
  std::shared_ptr<PendingWork> Take() ABSL_LOCKS_EXCLUDED(mu_);
  void PutBack(std::shared_ptr<PendingWork> work) ABSL_LOCKS_EXCLUDED(mu_);
  // The slot's living process, started if need be: also when the folder of the
  // one before was removed.
  absl::StatusOr<std::shared_ptr<WorkerProcess>> Ready(int index)
      ABSL_LOCKS_EXCLUDED(mu_);
  bool UpToDate(WorkerProcess& process) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TakeIdentity(const wire::HelloReply& hello)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<wire::WorkReply> RunOn(WorkerProcess& process, int index,
                                        const PendingWork& work);
  void RunOnce(int index, std::shared_ptr<PendingWork> work);
  void Retry(std::shared_ptr<PendingWork> work, absl::Status last);
  void SetState(int index, absl::string_view state, const Digest& key)
      ABSL_LOCKS_EXCLUDED(mu_);

  const WorkerLimits limits_;
  const int count_;
  const std::string scratch_folder_;
  Counters& counters_;

  mutable Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  wire::HelloReply identity_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const BuildIdentity> build_ ABSL_GUARDED_BY(mu_);  // or null
  int failed_starts_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<std::shared_ptr<PendingWork>> builds_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<PendingWork>> others_ ABSL_GUARDED_BY(mu_);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mu_);

  std::vector<std::thread> threads_;  // from Start to End
};

}  // namespace kiln

#endif  // KILN_SERVER_WORKER_POOL_H_

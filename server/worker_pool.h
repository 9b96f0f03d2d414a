#ifndef KILN_SERVER_WORKER_POOL_H_
#define KILN_SERVER_WORKER_POOL_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "server/build_identity.h"
#include "server/counters.h"
#include "server/work_queue.h"
#include "server/worker_link.h"
#include "server/worker_process.h"
#include "server/worker_roster.h"

namespace kiln {

// The compile workers: long-lived processes, one thread of ours for each, which
// pulls requests from one queue.
//
// A worker that dies, hangs or talks nonsense is replaced, and its request is
// given to a worker once more. No process works for two namespaces: the queue
// prefers one that worked for the same, and another makes way for a new one.
// Thread-safe.
class WorkerPool {
 public:
  // Starts `count` workers with scratch folders below `scratch_folder`, and
  // waits for the first hello; the others come when they come. The folders of
  // workers that were another pool's are removed first: the caller sees to it
  // that no other lives there.
  //
  // NO_TOOLCHAIN if no worker says hello, PERMISSION if the machine does not grant
  // the required jail. `counters` outlives the pool.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Start(
      const WorkerLimits& limits, int count, const std::string& scratch_folder,
      Counters& counters);

  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool() { End(); }

  // Interrupts what is under way, answers everything, also what is submitted
  // later, with DRAINING; ends every worker. Once, by one thread; the
  // destructor does it otherwise.
  void End();

  std::shared_ptr<PendingWork> Submit(wire::WorkRequest request,
                                      WorkLabel label = {}) {
    return queue_.Push(std::move(request), std::move(label));
  }
  // Another waits for what was submitted: it is done in the turn of either.
  void Join(std::shared_ptr<PendingWork> work, const WorkLabel& label) {
    queue_.Join(std::move(work), label.cache_namespace, label.caller);
  }

  // Who compiles now. All workers have the program of the first: one with
  // another (it was replaced on disk) is refused. Their compilers are those
  // that the worker started last found: when the machine's are replaced, a
  // worker that notices ends (toolchain.h), its successor tells of the new
  // ones, and the others make way for successors of their own before their
  // next request.
  wire::HelloReply identity() const { return roster_.identity(); }
  std::shared_ptr<const BuildIdentity> build() const { return roster_.build(); }

  std::vector<WorkerView> Snapshot() const { return roster_.Snapshot(); }
  int size() const { return roster_.size(); }

 private:
  WorkerPool(const WorkerLimits& limits, int count)
      : limits_(limits), roster_(count) {}

  const WorkerLimits limits_;
  WorkQueue queue_;
  WorkerRoster roster_;
  std::vector<std::unique_ptr<WorkerLink>> links_;
  std::vector<std::thread> threads_;  // from Start to End
};

}  // namespace kiln

#endif  // KILN_SERVER_WORKER_POOL_H_

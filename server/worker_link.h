#ifndef KILN_SERVER_WORKER_LINK_H_
#define KILN_SERVER_WORKER_LINK_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/counters.h"
#include "server/work_queue.h"
#include "server/worker_process.h"
#include "server/worker_roster.h"

namespace kiln {

// One worker's place in the pool: takes requests off the queue and gives them to
// a process, which is started, and replaced when it died, when it is of another
// build or worn out, and before it would work for another use than it did.
//
// Used by one thread, which runs Drive.
class WorkerLink {
 public:
  // Scratch folders are `scratch_prefix`-XXXXXX. All outlive the link.
  WorkerLink(const WorkerLimits& limits, int index, std::string scratch_prefix,
             WorkQueue& queue, WorkerRoster& roster, Counters& counters)
      : limits_(limits),
        index_(index),
        scratch_prefix_(std::move(scratch_prefix)),
        queue_(queue),
        roster_(roster),
        counters_(counters) {}

  // Works until the queue ends; then the process is ended.
  void Drive();

 private:
  // The living process, fit for `use`; empty: for any.
  absl::StatusOr<std::shared_ptr<WorkerProcess>> Ready(
      const std::optional<WorkerUse>& use);
  bool IsFit(const WorkerProcess& process,
             const std::optional<WorkerUse>& use) const;
  absl::StatusOr<std::shared_ptr<WorkerProcess>> StartProcess(bool gpu);
  absl::StatusOr<wire::WorkReply> RunOn(WorkerProcess& process,
                                        const PendingWork& work);
  void RunOnce(std::shared_ptr<PendingWork> work);
  void NoteDeath(const PendingWork& work, const absl::Status& status);
  void Retry(std::shared_ptr<PendingWork> work, absl::Status last);

  const WorkerLimits& limits_;
  const int index_;
  const std::string scratch_prefix_;
  WorkQueue& queue_;
  WorkerRoster& roster_;
  Counters& counters_;
  // What the process worked for; nothing yet, or no process: none.
  std::optional<WorkerUse> use_;
  int in_a_row_ = 0;  // requests of that use
  bool has_gpu_ = false;
};

}  // namespace kiln

#endif  // KILN_SERVER_WORKER_LINK_H_

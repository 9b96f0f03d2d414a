#ifndef KILN_SERVER_TUNE_FLOW_H_
#define KILN_SERVER_TUNE_FLOW_H_

#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "cache/tuning_cache.h"
#include "proto/admin_service.pb.h"
#include "proto/base/mutex.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/worker_pool.h"

namespace kiln {

// Has workers measure the kernels and library calls of a graph. Thread-safe.
class Tuner {
 public:
  // All outlive this.
  Tuner(WorkerPool& pool, TuningCache& tuning, Counters& counters)
      : pool_(pool), tuning_(tuning), counters_(counters) {}

  // One key after another, of all graphs, so that no measurement disturbs another
  // one. Keys that others depend on come first (proto/base/tuned_line.h), and the graph
  // is planned again with what they decide. Keeps each winner as it comes: plans made
  // from then on for that target use it, and entries that were made without it, of graphs
  // that meet its key, are served no more. Blocks until all are measured. So where many
  // ask for one graph and for missing decisions only, the first has them measured.
  //
  // Errors:
  //   INVALID_ARGUMENT BAD_TARGET  no target
  //   FAILED_PRECONDITION NO_DEVICE  the workers' machine has none such
  //   and those of MakeTask, of planning and of PendingWork::Wait
  absl::StatusOr<wire::TuneReply> Tune(const wire::TuneRequest& request)
      ABSL_LOCKS_EXCLUDED(turn_);

 private:
  absl::StatusOr<wire::TunedKernel> MeasureAndKeep(const CompileTask& task,
                                                   const std::string& key);
  // What is still to be measured next: ways, as long as there are any.
  absl::StatusOr<std::vector<std::string>> KeysOfRound(
      const CompileTask& task, bool missing_only,
      const std::set<std::string>& measured);
  // Adds the winner or, where only what is missing is asked for, the failure.
  absl::Status TuneKey(const CompileTask& task, const std::string& key,
                       bool missing_only, wire::TuneReply& reply);

  WorkerPool& pool_;
  TuningCache& tuning_;
  Counters& counters_;
  Mutex turn_;  // held while a graph's keys are measured
};

}  // namespace kiln

#endif  // KILN_SERVER_TUNE_FLOW_H_

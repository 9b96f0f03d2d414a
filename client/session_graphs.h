#ifndef KILN_CLIENT_SESSION_GRAPHS_H_
#define KILN_CLIENT_SESSION_GRAPHS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/base/mutex.h"
#include "runtime/caching_allocator.h"
#include "runtime/executor.h"
#include "runtime/graph_tree/graph_tree.h"
#include "runtime/graph_tree/tree_notes.h"
#include "runtime/input_view.h"
#include "runtime/opened_device.h"
#include "runtime/plan_graphs/graph_options.h"
#include "runtime/plan_graphs/plan_graphs.h"
#include "runtime/run_options.h"
#include "runtime/tensor.h"

namespace kiln {

// The runs of a session as device graphs (runtime/plan_graphs): of each artifact
// and sizes of inputs the first run is a warm-up, the second is recorded and
// later ones are replayed. Where the device captures nothing, that is noted once
// and all runs are plain ones. So is a run that lends memory, makes its results,
// watches inputs or launches: no graph can do that.
//
// Recordings stay until this goes, or until Forget. Thread-safe: one call at a
// time is put on the device, so that runs of several threads wait for one
// another; there they run one after the other too, whichever streams they are on.
class SessionGraphs {
 public:
  using Indices = absl::FunctionRef<std::vector<int>()>;

  SessionGraphs(const OpenedDevice& device, const GraphOptions& options);

  // Null without options.
  static std::unique_ptr<SessionGraphs> WhereAsked(
      const OpenedDevice& device, const std::optional<GraphOptions>& options) {
    if (!options.has_value()) return nullptr;
    return std::make_unique<SessionGraphs>(device, *options);
  }

  // Executor::RunGuarded, with its errors and those of PlanGraphs::Run.
  //
  //   static_inputs  asked at an executor's first run: PlanGraphs::Add
  absl::StatusOr<std::vector<OutputValue>> Run(
      const std::shared_ptr<const Executor>& executor,
      absl::Span<const InputView> inputs, Indices static_inputs,
      const RunOptions& options) ABSL_LOCKS_EXCLUDED(mu_);

  // Drops what was recorded of an executor that serves no more, and with it the
  // executor: at once, or when the results of its last step are done with.
  void Forget(const std::shared_ptr<const Executor>& executor)
      ABSL_LOCKS_EXCLUDED(mu_);

  // PlanGraphs::BeginStep.
  void MarkStepBegin() ABSL_LOCKS_EXCLUDED(mu_);

  // What was decided since the last time, and why. The device's own note is of
  // function -1.
  std::vector<graph_tree::TreeNote> TakeNotes() ABSL_LOCKS_EXCLUDED(mu_);

  // The memory of all recordings, for people: segments and blocks, and which step
  // of which plan holds each (CachingAllocator::ToText). Plans are numbered as
  // they come.
  std::string MemoryText() const ABSL_LOCKS_EXCLUDED(mu_);

  // Shows the tree, unless the device has none.
  void Look(absl::FunctionRef<void(const graph_tree::GraphTree&)> look) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool IsForgotten(const std::shared_ptr<const Executor>& executor) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const OpenedDevice device_;  // outlives the rest
  mutable Mutex mu_;
  // Null where the device captures nothing.
  std::unique_ptr<PlanGraphs> graphs_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const Executor*, int> plans_ ABSL_GUARDED_BY(mu_);
  // Runs that had begun may still come with them: these are plain.
  std::vector<std::weak_ptr<const Executor>> forgotten_ ABSL_GUARDED_BY(mu_);
  std::vector<graph_tree::TreeNote> notes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_SESSION_GRAPHS_H_

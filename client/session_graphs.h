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

// Runs a session's artifacts as device graphs (runtime/plan_graphs). For each artifact
// and each set of input sizes, the first run is a warm-up, the second is recorded, and
// later ones are replayed. If the device cannot capture, that is noted once and all runs
// are plain. A run is also plain if it lends memory, allocates its own results, or
// watches inputs or launches, since a graph cannot do that.
//
// Recordings live until Forget or the destructor. Thread-safe: one run at a time is put
// on the device, so threads wait for one another. On the device the runs follow one
// another too, whatever their streams.
class SessionGraphs {
 public:
  using Indices = absl::FunctionRef<std::vector<int>()>;

  SessionGraphs(const OpenedDevice& device, const GraphOptions& options);

  // Null if `options` is empty.
  static std::unique_ptr<SessionGraphs> WhereAsked(
      const OpenedDevice& device, const std::optional<GraphOptions>& options) {
    if (!options.has_value()) return nullptr;
    return std::make_unique<SessionGraphs>(device, *options);
  }

  // Like Executor::RunGuarded. Errors: its own, and those of PlanGraphs::Run.
  //
  //   static_inputs  called at an executor's first run (PlanGraphs::Add)
  absl::StatusOr<std::vector<OutputValue>> Run(
      const std::shared_ptr<const Executor>& executor,
      absl::Span<const InputView> inputs, Indices static_inputs,
      const RunOptions& options) ABSL_LOCKS_EXCLUDED(mu_);

  // Drops an executor that is no longer used, with its recordings: at once, or when the
  // results of its last step are no longer needed.
  void Forget(const std::shared_ptr<const Executor>& executor)
      ABSL_LOCKS_EXCLUDED(mu_);

  // PlanGraphs::BeginStep.
  void MarkStepBegin() ABSL_LOCKS_EXCLUDED(mu_);

  // The notes since the last call: what was decided, and why. The note about the device
  // has the function number -1.
  std::vector<graph_tree::TreeNote> TakeNotes() ABSL_LOCKS_EXCLUDED(mu_);

  // Describes the memory of all recordings: segments and blocks, and which step of which
  // plan holds each (CachingAllocator::ToText). Plans are numbered in order of their
  // first run.
  std::string MemoryText() const ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `look` with the tree, unless the device cannot capture.
  void Look(absl::FunctionRef<void(const graph_tree::GraphTree&)> look) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool IsForgotten(const std::shared_ptr<const Executor>& executor) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const OpenedDevice device_;  // outlives the rest
  mutable Mutex mu_;
  // Null if the device cannot capture.
  std::unique_ptr<PlanGraphs> graphs_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<const Executor*, int> plans_ ABSL_GUARDED_BY(mu_);
  // Runs that began earlier may still arrive with these; they are run plainly.
  std::vector<std::weak_ptr<const Executor>> forgotten_ ABSL_GUARDED_BY(mu_);
  std::vector<graph_tree::TreeNote> notes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CLIENT_SESSION_GRAPHS_H_

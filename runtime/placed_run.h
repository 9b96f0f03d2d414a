#ifndef KILN_RUNTIME_PLACED_RUN_H_
#define KILN_RUNTIME_PLACED_RUN_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/executor.h"
#include "runtime/input_view.h"
#include "runtime/run_options.h"
#include "runtime/tensor.h"

namespace kiln {

// A run that is ready but for its work: inputs are checked, symbols bound,
// assertions tested, library calls prepared, and each buffer has its address. The
// memory does not move, so the work can be captured and the graph replayed.
//
// Place goes through the memory events of all steps (memory_events.h) before any
// step does its work, so the allocator and the observers of the options see what
// they see of a run. Temporaries are free again when Place returns. The work then
// relies on the allocator: nothing else may use the memory that it gave for this
// stream between the steps. A pool that only graphs of one stream use guarantees
// that. One thread at a time.
class PlacedRun {
 public:
  // `options`: the allocator, if there is one, must outlive this and the results.
  // Hooks and traces do not see the work. Without a seed slot the seed is written to
  // one now. Inputs must not move as long as the work runs.
  //
  // Errors: those of Executor::Run but for steps that fail; FAILED_PRECONDITION
  // when the stream is captured already.
  static absl::StatusOr<std::unique_ptr<PlacedRun>> Place(
      std::shared_ptr<const Executor> executor,
      absl::Span<const InputView> inputs, const RunOptions& options);

  ~PlacedRun();
  PlacedRun(const PlacedRun&) = delete;
  PlacedRun& operator=(const PlacedRun&) = delete;

  // Puts the steps on the options' stream. Any number of times.
  absl::Status Put();

  // In the graph's order, as Executor::Run gives them. Once: they own their
  // memory.
  std::vector<OutputValue> TakeOutputs() { return std::move(outputs_); }

  // 8 bytes on the device that the work reads the random seed from; null for a
  // plan that reads none there.
  void* seed_slot() const;

  // Of the kernels that it launches, in order.
  std::vector<std::string> KernelNames() const;

 private:
  PlacedRun(std::shared_ptr<const Executor> executor,
            const RunOptions& options);

  const std::shared_ptr<const Executor> executor_;
  const RunOptions options_;  // of the work
  std::unique_ptr<CallFrame> frame_;
  std::vector<OutputValue> outputs_;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLACED_RUN_H_

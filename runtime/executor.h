#ifndef KILN_RUNTIME_EXECUTOR_H_
#define KILN_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device.h"
#include "runtime/input_view.h"
#include "runtime/loaded_artifact.h"
#include "runtime/run_options.h"
#include "runtime/tensor.h"

namespace kiln {

struct BoundPlan;
class FramePool;
struct CallFrame;

// A loaded artifact made ready to run: every expression, kernel, library call
// and buffer of its plan resolved. Immutable and reentrant: any number of
// threads and streams may be in Run at once. A call borrows an arena and gives
// it back, ordered on its stream; a bounded number of arenas is kept, unless
// the caller lends the memory.
//
// Run allocates outputs when they are first written, and temporaries that the
// plan keeps out of the arena while they live; nothing else, once an arena is
// there.
class Executor {
 public:
  // `fixed`: the plan's last inputs, where they are the same tensors with the same
  // data in every run. Each run is given them like all others, and their data must
  // stay as long as there are runs. Library calls prepare them once
  // (constant_operands.h).
  //
  // UNSUPPORTED_OP   an extern call, dtype or attribute that no library here
  //                  takes: named
  // NO_DEVICE        a library that the plan needs is not on the machine: named
  // RESOURCE_EXHAUSTED  no memory for what library calls prepare
  // ARTIFACT_INCOMPATIBLE  more fixed inputs than the plan has
  static absl::StatusOr<std::shared_ptr<const Executor>> Create(
      std::shared_ptr<const LoadedArtifact> artifact,
      absl::Span<const InputValue> fixed = {});

  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs the plan on `inputs`, which are in the graph's order. Mutated inputs
  // are written. The results are in the graph's order, with the strides the
  // plan gives; on CUDA they are ready once the work on the stream is done.
  //
  //   GUARD_FAILED        number, dtype, sizes, strides, alignment or device of
  //                       an input; an assertion of the plan
  //   RESOURCE_EXHAUSTED  no memory for arena or outputs
  //   INTERNAL            the device refused or failed
  absl::StatusOr<std::vector<OutputValue>> Run(
      absl::Span<const InputValue> inputs, const RunOptions& options) const;

  // What Run looks at before it begins: its GUARD_FAILED.
  absl::Status Check(absl::Span<const InputValue> inputs) const;

  // Run for inputs that a guard table of this plan has let through
  // (client/guard_table.h), on this executor's device: of what Run checks only
  // addresses are left to be looked at. With hundreds of inputs a second look is
  // what a call costs most.
  absl::StatusOr<std::vector<OutputValue>> RunGuarded(
      absl::Span<const InputView> inputs, const RunOptions& options) const;

  const LoadedArtifact& artifact() const { return *artifact_; }

  // For people: each library call of the plan, in order (ExternSite::Descriptions).
  std::vector<std::string> LibraryCalls() const;

 private:
  friend class PlacedRun;  // placed_run.h: a run that can be captured

  Executor(std::shared_ptr<const LoadedArtifact> artifact,
           std::unique_ptr<const BoundPlan> plan);

  enum class Look { kAtInputs, kNoMore };
  absl::StatusOr<std::vector<OutputValue>> RunOnFrame(
      absl::Span<const InputView> inputs, const RunOptions& options,
      Look look) const;
  // Looks at the inputs, and gives the frame the values that follow from them.
  absl::Status Bind(absl::Span<const InputView> inputs, Look look,
                    CallFrame& frame) const;
  // All of a run that comes before its steps.
  absl::Status Settle(absl::Span<const InputView> inputs,
                      const RunOptions& options, Look look,
                      CallFrame& frame) const;

  const std::shared_ptr<const LoadedArtifact> artifact_;
  const std::unique_ptr<const BoundPlan> plan_;
  const std::unique_ptr<FramePool> frames_;  // thread-safe
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXECUTOR_H_

#ifndef KILN_RUNTIME_BIND_LAUNCHES_H_
#define KILN_RUNTIME_BIND_LAUNCHES_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/constant_operands.h"
#include "runtime/extern_site.h"
#include "runtime/input_view.h"
#include "runtime/loaded_artifact.h"
#include "runtime/memory_events.h"
#include "runtime/plan.h"

// Makes a plan ready to run: kernels by handle, library calls prepared,
// arguments sorted into pointers and scalars, and a schedule that says when
// each expression can be evaluated. Nothing is looked up by name after this.

namespace kiln {

struct BoundPointer {
  int32_t buffer = 0;
  ExprId offset_bytes = 0;
};

struct BoundLaunch {
  // Stands among the scalars for the run's seed.
  static constexpr ExprId kSeed = -1;

  KernelHandle kernel = nullptr;
  int32_t step = 0;  // of the plan's
  absl::string_view label;
  std::vector<BoundPointer> pointers;
  std::vector<ExprId> scalars;
  std::vector<int32_t> order;  // see KernelLaunch
  ExprId grid[3] = {0, 0, 0};
  int64_t most_blocks = 0;  // along x, on this device
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t cluster = 0;
  bool programmatic_dependent_launch = false;
};

struct BoundExtern {
  std::unique_ptr<ExternSite> site;
  int32_t step = 0;  // of the plan
};
struct BoundCopy {
  const PlanCopy* copy = nullptr;
};
struct BoundFill {
  const PlanFill* fill = nullptr;
};
struct BoundAssert {
  const PlanAssert* assertion = nullptr;
};
struct BoundBind {
  int32_t symbol = 0;
  ExprId value = 0;
  int32_t wave = 0;  // to evaluate afterwards
};
using BoundStep = std::variant<BoundLaunch, BoundExtern, BoundCopy, BoundFill,
                               BoundAssert, BoundBind>;

// A launch whose grid may be larger than the device takes.
struct BoundGrid {
  absl::string_view label;
  ExprId grid[3] = {0, 0, 0};
  int64_t most_blocks = 0;  // along x, as of the launch
};

// The extents of a launch that are empty, or that fit: OK.
// ARTIFACT_INCOMPATIBLE  one does not, with the kernel's name
absl::Status CheckGrid(const BoundGrid& grid, const DeviceTraits& traits,
                       absl::Span<const int64_t> values);

// What can be worked out at one moment of a call: wave 0 once the inputs are
// known, wave i after the plan's i-th bind step.
struct Wave {
  std::vector<ExprId> expressions;
  // Constants and the arena's, whose place is known from here on.
  std::vector<int32_t> buffers;
  std::vector<BoundGrid> grids;
  std::vector<int32_t> calls;  // steps that call a library, their shapes known
};

// A buffer that is an input. Apart from the other buffers, since there may be
// hundreds of them.
struct BoundInput {
  int32_t buffer = 0;
  int32_t input = 0;
};

// A result that is all of its buffer, and known once the inputs are.
struct WholeResult {
  int32_t output = -1;  // none
  const PlanView* view = nullptr;
};

struct BoundPlan {
  // Stand among a frame's buffers, behind those of the plan.
  int32_t seed_slot() const {
    return static_cast<int32_t>(plan->buffers.size());
  }
  int32_t workspace() const { return seed_slot() + 1; }

  const Plan* plan = nullptr;
  // Before the steps, so that it goes after them.
  std::unique_ptr<ConstantOperands> constants;
  // One for each expression; constants are in place already. Behind them a 0.
  std::vector<int64_t> values;
  bool reads_seed_slot = false;
  std::vector<BoundInput> inputs;
  std::vector<Wave> waves;  // at least wave 0
  std::vector<BoundStep> steps;
  MemoryEvents memory;
  std::vector<WholeResult> whole_results;  // by buffer
  size_t most_pointers = 0;                // of any launch
  size_t most_scalars = 0;
};

// The result refers to `artifact`, which must outlive it. `fixed`: see
// ConstantOperands.
//
// ARTIFACT_CORRUPT  R5: an expression is used before its symbols are bound
// ARTIFACT_INCOMPATIBLE  a grid of a known size is larger than the device takes
// UNSUPPORTED_OP    an arena whose size a step binds; an extern call that no
//                   library takes
// RESOURCE_EXHAUSTED  no memory for operands that a library wants in its own form
// NO_DEVICE         a library that is not on the machine
absl::StatusOr<BoundPlan> BindLaunches(const LoadedArtifact& artifact,
                                       absl::Span<const InputView> fixed);

}  // namespace kiln

#endif  // KILN_RUNTIME_BIND_LAUNCHES_H_

#ifndef KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_
#define KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

struct ScheduleOptions {
  // Nests in one kernel. Higher: fewer launches, more registers.
  int max_fusion_size = 64;
  // One kernel a nest, nothing inlined: for debugging.
  bool no_fusion = false;
  // Elements of a row kept in registers between its passes; 0: by target.
  int64_t persistent_max_row = 0;
};

// A loop program as kernels: producers inlined, nests fused, axes merged and
// ordered, each kernel tiled, kernels that share nothing put into one launch,
// temporaries placed in the arena.
//
// In the plan, buffers are flat: one dimension, stride 1, as long as their
// memory; a load or store has one index, the element's address. Views of
// library calls and outputs keep their shapes.
//
// Errors: INTERNAL when a step breaks an invariant of loop_verifier.h.
//
// Pure: equal arguments give equal plans.
absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program,
                                       const Target& target,
                                       const ScheduleOptions& options);

// The steps of PlanKernels that stand between its loops and its memory, for
// kiln-opt and tests; each leaves the rest as it was.

// A kernel a nest, over flat buffers; serial, and without places in the arena.
KernelPlan FlattenAddresses(LoopProgram program);
// Each kernel's axes by loop_order.h, then merged.
void OrderLoops(KernelPlan& plan);
// Each kernel's tiling by choose_tiling.h, and its label.
void ChooseTilings(KernelPlan& plan, const Target& target,
                   const ScheduleOptions& options);
// Kernels that share a launch by combine_nests.h, and the labels.
void CombineKernels(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

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
// ordered, each kernel tiled, temporaries placed in the arena.
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

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

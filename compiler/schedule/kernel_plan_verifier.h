#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Invariants of a KernelPlan, beyond those of its nests (loop_verifier.h).
// Breaking one is our bug.
//
//   K1  Buffers are flat: one dimension, stride 1.
//   K2  There is a placement for each buffer, and a temporary that a step
//       touches has a place in the arena, within its bytes (at the hints),
//       or memory of its own.
//   K3  Temporaries that live at once do not overlap, in the arena or by
//       sharing memory of their own, but for one that takes the memory of an
//       operand of its kernel in place.
//   K4  Labels are unique.
//   K5  A tiling has positive numbers, a power of two as vector width, and a
//       tile axis, if any, that is an axis but not the last.
//   K6  A kernel with reduction axes is not kPointwise or kTile2d; one without
//       is not kRow or kColumn.
//   K7  A combined kernel has two parts or more, pointwise with as many threads
//       a block, and none touches what another one writes.
//
// INTERNAL with the number, what was found and what was due. Quadratic in
// temporaries.
absl::Status VerifyKernelPlan(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

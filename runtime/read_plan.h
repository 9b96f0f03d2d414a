#ifndef KILN_RUNTIME_READ_PLAN_H_
#define KILN_RUNTIME_READ_PLAN_H_

#include "absl/status/statusor.h"
#include "runtime/plan.h"

namespace kiln {

namespace wire {
class Artifact;
}  // namespace wire

// Takes the LaunchPlan out of an artifact and checks its structure, so that
// nothing after it meets a number out of range:
//
//   L1  Symbols, buffers, kernels, modules, inputs and constants that are
//       referred to exist; a symbol's source is an input of the right kind.
//   L2  Views have as many sizes as strides; dtypes are ones Kiln computes with.
//   L3  Views and arena buffers whose numbers are constants stay inside their
//       buffer and the arena.
//   L4  A launch has three grid extents and three block extents, each block
//       extent in [1, 1024].
//   L5  Each symbol of source "step" is bound by one step; no expression is
//       used before its symbols are bound (bind_launches.h finds that).
//   L6  Both sides of a copy agree in dtype and rank; a filled view is dense
//       where that can be seen.
//   L7  Outputs view an output, an input or a constant; not the arena.
//
// ARTIFACT_CORRUPT  with the number of the broken rule and the step
// UNSUPPORTED_OP    a host call or a region: named
//
// The plan's constants are views on `artifact`, which must outlive it.
absl::StatusOr<Plan> ReadPlan(const wire::Artifact& artifact);

}  // namespace kiln

#endif  // KILN_RUNTIME_READ_PLAN_H_

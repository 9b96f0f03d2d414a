#ifndef KILN_PROTO_PLAN_PLAN_VERIFIER_H_
#define KILN_PROTO_PLAN_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "proto/artifact.pb.h"

namespace kiln {

// Invariants of a LaunchPlan. A compiler that breaks one has a fault; a runtime
// that is handed such a plan refuses it, so that nothing after it meets a
// number out of range.
//
//   R1  Symbols, buffers, kernels, modules, inputs and constants that are
//       referred to exist, and everything is of a kind; a symbol's source is an
//       input of the right kind.
//   R2  Views and tensor inputs have as many sizes as strides; dtypes are ones
//       Kiln computes with.
//   R3  Views and arena buffers whose numbers are constants stay inside their
//       buffer and the arena.
//   R4  A launch has three grid extents and three block extents, each block
//       extent in [1, 1024].
//   R5  Each symbol of source "step" is bound by one step, and no other symbol
//       is. (That no expression is used before its symbols are bound,
//       runtime/bind_launches.h finds.)
//   R6  Both sides of a copy agree in dtype and rank.
//   R7  Outputs view an output, an input or a constant; not memory
//       that is given back before.
//
//   compiled  its plan and constants count
//   modules   how many there are: units, or objects of an artifact
//
// ARTIFACT_CORRUPT "step 3: launch plan: R4: ..." with the number of the broken
// rule, or with what is unsound in an expression (sym_eval.h). Linear.
absl::Status VerifyLaunchPlan(const wire::CompilePlan& compiled, int modules);

}  // namespace kiln

#endif  // KILN_PROTO_PLAN_PLAN_VERIFIER_H_

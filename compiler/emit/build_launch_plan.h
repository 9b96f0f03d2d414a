#ifndef KILN_COMPILER_EMIT_BUILD_LAUNCH_PLAN_H_
#define KILN_COMPILER_EMIT_BUILD_LAUNCH_PLAN_H_

// The last step of a compile: plans and sources become wire messages. Nothing
// is decided here.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph.h"
#include "compiler/schedule/kernel_plan.h"
#include "proto/artifact.pb.h"

namespace kiln {

// What is known of one planned kernel beside its source, for people and
// metrics.
struct KernelFacts {
  std::string text;  // its KernelPlan text
  SymExpr bytes_read = 0;
  SymExpr bytes_written = 0;
  std::string mapping;           // as PlanKernel.mapping
  std::vector<SymExpr> extents;  // as PlanKernel.extents
};

// What one kernel step of a plan came to.
struct EmittedKernel {
  KernelSource source;  // params name the plan's buffers
  KernelFacts facts;
};

// Everything but units, guards and counters.
//
//   graph    after its passes: inputs, constants and symbols are read of it
//   plan     what was scheduled
//   kernels  one for each PlannedKernel and CombinedKernel of plan.steps,
//           in order; equal symbols
//            are one kernel of the LaunchPlan
//   units    where each symbol is defined
//
// Buffers that no step and no output names are left out.
//
// Errors: INTERNAL when a kernel's symbol stands in no unit, or counts differ.
//
// Pure.
absl::StatusOr<wire::LaunchPlan> BuildLaunchPlan(
    const Graph& graph, const KernelPlan& plan,
    absl::Span<const EmittedKernel> kernels,
    absl::Span<const UnitSource> units);

}  // namespace kiln

#endif  // KILN_COMPILER_EMIT_BUILD_LAUNCH_PLAN_H_

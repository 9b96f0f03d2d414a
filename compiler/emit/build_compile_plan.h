#ifndef KILN_COMPILER_EMIT_BUILD_COMPILE_PLAN_H_
#define KILN_COMPILER_EMIT_BUILD_COMPILE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/emit/build_launch_plan.h"
#include "compiler/pass/pass_runner.h"
#include "proto/artifact.pb.h"

namespace kiln {

// What a worker's planning gives: the LaunchPlan, the units in module order,
// the guards that were taken, the counters, the constants, the tuning decisions
// that were looked up.
//
//   flags  of the toolchain, the same for every unit
//
// Counters of every plan, sorted by name:
//   extern_call_count, generated_kernel_count (distinct), launch_count
//   (launches and fills), num_bytes_accessed
//   (LaunchCounts.bytes, at the hints), decompose_addmm, decompose_bmm,
//   decompose_mm (tiny products of these operators that became loops)
//
// Errors: of BuildLaunchPlan. Pure.
absl::StatusOr<wire::CompilePlan> BuildCompilePlan(
    const Graph& graph, const KernelPlan& plan,
    absl::Span<const EmittedKernel> kernels, absl::Span<const UnitSource> units,
    const Target& target, absl::Span<const std::string> flags);

// Adds a counter for each record, "pass_03_decompose_composites": what that pass or
// step left, numbered in order of running. Without times, which differ. And:
//   binary_folding             patterns of the pass fold_into_convolutions
//   inplace_padding            matrices that were padded in place
//   num_comprehensive_padding  buffers whose rows got a longer stride
//   pattern_matches            patterns of operators that all passes replaced
//   scatter_upon_const_tensor  those of the pass scatter_upon_const
void AddPassCounters(absl::Span<const PassRecord> records,
                     wire::CompilePlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_EMIT_BUILD_COMPILE_PLAN_H_

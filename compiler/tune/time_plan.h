#ifndef KILN_COMPILER_TUNE_TIME_PLAN_H_
#define KILN_COMPILER_TUNE_TIME_PLAN_H_

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// Builds the kernels of a complete plan and times each of its steps alone, with symbols
// at their hints. The sum of the medians of `repeats` runs, in seconds: what a step
// leaves in caches for the next counts for nothing.
//
// Errors: those of `toolchain` and `stopwatch`; INTERNAL for a plan with a Fill.
absl::StatusOr<double> TimePlan(const KernelPlan& plan, const Target& target,
                                int repeats, Toolchain& toolchain,
                                Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_TIME_PLAN_H_

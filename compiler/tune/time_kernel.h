#ifndef KILN_COMPILER_TUNE_TIME_KERNEL_H_
#define KILN_COMPILER_TUNE_TIME_KERNEL_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// Builds a kernel of `plan` for a stopwatch, with symbols at their hints.
// Errors: those of `toolchain`.
absl::StatusOr<TimedKernel> BuildTimedKernel(const KernelSource& source,
                                             const KernelPlan& plan,
                                             const Target& target,
                                             Toolchain& toolchain);

// Builds the kernel and times it: returns the median of `repeats` runs, in seconds.
// Errors: those of `toolchain` and `stopwatch`.
absl::StatusOr<double> TimeKernel(const KernelSource& source,
                                  const KernelPlan& plan, const Target& target,
                                  int repeats, Toolchain& toolchain,
                                  Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_TIME_KERNEL_H_

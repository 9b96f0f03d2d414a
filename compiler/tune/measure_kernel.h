#ifndef KILN_COMPILER_TUNE_MEASURE_KERNEL_H_
#define KILN_COMPILER_TUNE_MEASURE_KERNEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/config_space.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/measurement.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// The kernel of `plan` (PlanNests) that decisions under `key` are for: the first
// that has it. BAD_OPTION when there is none.
absl::StatusOr<const PlannedKernel*> KernelOfKey(const KernelPlan& plan,
                                                 const PassEnv& env,
                                                 absl::string_view key);

// `kernel` of `plan` alone, in the given configuration, with the workspace that
// it needs there.
KernelPlan PlanOfOne(const KernelPlan& plan, const PlannedKernel& kernel,
                     const KernelConfig& config);

// Writes the kernel of `key` in each configuration, builds all and times them,
// with symbols at their hints. Without choices: ConfigSpace::WorthMeasuring.
//
// Errors: of KernelOfKey; BAD_OPTION for a choice that is no configuration of
// the kernel; those of `toolchain` and `stopwatch`, with the key and the
// configuration in front.
absl::StatusOr<Measurement> MeasureKernel(
    const KernelPlan& plan, const PassEnv& env, absl::string_view key,
    const MeasureOptions& options, Toolchain& toolchain, Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_KERNEL_H_

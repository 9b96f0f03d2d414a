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

// The first kernel of `plan` (PlanNests) whose tuning key is `key`. BAD_OPTION if there
// is none.
absl::StatusOr<const PlannedKernel*> KernelOfKey(const KernelPlan& plan,
                                                 const PassEnv& env,
                                                 absl::string_view key);

// A plan of `kernel` alone, in the given configuration, with the workspaces that it
// needs. `kernel` is one of `plan`.
KernelPlan PlanOfOne(const KernelPlan& plan, const PlannedKernel& kernel,
                     const KernelConfig& config);

// Generates, builds and times the kernel of `key` in each configuration in
// `options.choices`, with symbols at their hints. If there are no choices, it times
// those of ConfigSpace::WorthMeasuring.
//
// Errors: those of KernelOfKey; BAD_OPTION for a choice that is not a configuration of
// the kernel; those of `toolchain` and `stopwatch`, prefixed with the key and the
// configuration.
absl::StatusOr<Measurement> MeasureKernel(
    const KernelPlan& plan, const PassEnv& env, absl::string_view key,
    const MeasureOptions& options, Toolchain& toolchain, Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_KERNEL_H_

#ifndef KILN_COMPILER_TUNE_MEASURE_KERNEL_H_
#define KILN_COMPILER_TUNE_MEASURE_KERNEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/config_space.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

struct MeasureOptions {
  // Configurations in ToText's words. Empty: ConfigSpace::WorthMeasuring.
  std::vector<std::string> choices;
  int repeats = 0;  // of each configuration; 0: 21
};

struct Measurement {
  std::string key;
  std::string choice;  // the winner
  std::vector<std::string> choices;
  std::vector<double> seconds;  // medians, one a choice
};

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
// with symbols at their hints.
//
// The winner is the first within 2% of the best in the order of `choices`, so
// that noise does not move it from run to run.
//
// Errors: of KernelOfKey; BAD_OPTION for a choice that is no configuration of
// the kernel; those of `toolchain` and `stopwatch`, with the key and the
// configuration in front.
absl::StatusOr<Measurement> MeasureKernel(
    const KernelPlan& plan, const PassEnv& env, absl::string_view key,
    const MeasureOptions& options, Toolchain& toolchain, Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_KERNEL_H_

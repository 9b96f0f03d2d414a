#ifndef KILN_COMPILER_TUNE_MEASURE_FLASH_H_
#define KILN_COMPILER_TUNE_MEASURE_FLASH_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/measurement.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// The first attention kernel of `plan` (PlanNests) whose tuning key is `key`, or null
// if there is none.
const FlashKernel* FlashOfKey(const KernelPlan& plan, const Target& target,
                              absl::string_view key);

// Generates, builds and times the kernel in each mapping in `options.choices`, with
// symbols at their hints. If there are no choices, it times those of FlashConfigs.
//
// Errors: BAD_OPTION for a choice that is not a mapping of the kernel; those of
// `toolchain` and `stopwatch`, prefixed with the key and the mapping.
absl::StatusOr<Measurement> MeasureFlash(
    const FlashKernel& kernel, const KernelPlan& plan, const Target& target,
    absl::string_view key, const MeasureOptions& options, Toolchain& toolchain,
    Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_FLASH_H_

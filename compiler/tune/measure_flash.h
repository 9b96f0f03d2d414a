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

// The attention kernel of `plan` (PlanNests) that decisions under `key` are for: the
// first that has it. Null when there is none.
const FlashKernel* FlashOfKey(const KernelPlan& plan, const Target& target,
                              absl::string_view key);

// Writes the kernel in each mapping, builds all and times them, with symbols at their
// hints. Without choices: FlashConfigs.
//
// Errors: BAD_OPTION for a choice that is no mapping of the kernel; those of
// `toolchain` and `stopwatch`, with the key and the mapping in front.
absl::StatusOr<Measurement> MeasureFlash(
    const FlashKernel& kernel, const KernelPlan& plan, const Target& target,
    absl::string_view key, const MeasureOptions& options, Toolchain& toolchain,
    Stopwatch& stopwatch);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_MEASURE_FLASH_H_

#ifndef KILN_COMPILER_SCHEDULE_FLASH_CONFIGS_H_
#define KILN_COMPILER_SCHEDULE_FLASH_CONFIGS_H_

// How attention's kernels may be mapped: what a measurement compares and what a
// tuning decision names, as ConfigSpace is for kernels of nests.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/config/tuning_table.h"
#include "compiler/schedule/flash_kernel.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The mappings that fit the target's shared memory and a warp's registers, each once:
// ChooseFlash's first, and 12 at most. What dropout leaves, and what the parts of a
// gradient hand on, is the same in all of them.
std::vector<CudaFlash> FlashConfigs(const FlashKernel& kernel,
                                    const Target& target);

// The mapping that a decision names in ToText's words (kernel_variant.h). BAD_OPTION: it
// is none of FlashConfigs.
absl::StatusOr<CudaFlash> FindFlash(const FlashKernel& kernel,
                                    const Target& target,
                                    absl::string_view text);

// The key under which decisions about the kernel are stored, without blanks:
// "flash_forward/bf16/8x12x1024x1024x64/5f0c9a31d2b7/sm_80": part, dtype, batch, heads,
// queries, keys and the size of a head, a digest of all that the time depends on, the
// target. A symbol has the next power of two of its hint, "2^10".
//
// Empty if there is one mapping alone. Pure; equal in every process.
std::string TuningKey(const FlashKernel& kernel, const ShapeEnv& shapes,
                      const Target& target);

struct FlashChoice {
  CudaFlash variant;
  std::string key;       // may be empty
  std::string decision;  // of `tuning`; may be empty
  std::string ignored;   // why the decision was not taken; may be empty
};

// The decision's mapping, or ChooseFlash's where there is none or it cannot be taken.
FlashChoice DecideFlash(const FlashKernel& kernel, const ShapeEnv& shapes,
                        const Target& target, const TuningTable& tuning);

// "kernel flash_forward", its key, and what was decided, a line each.
std::string ToText(const FlashKernel& kernel, const FlashChoice& choice);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FLASH_CONFIGS_H_

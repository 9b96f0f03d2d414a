#ifndef KILN_COMPILER_TUNE_APPLY_TUNING_H_
#define KILN_COMPILER_TUNE_APPLY_TUNING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// A winner of an earlier measurement.
struct TunedChoice {
  std::string key;     // RowKey
  std::string choice;  // RowChoice's text
};

// Takes decisions over into the kernels of `plan` that they are for.
//
// Gives what was looked up, as CompilePlan.tuned wants it: a line "KEY CHOICE"
// for each key that a row kernel has, sorted by key, its choice empty where
// `decisions` has none. Which keys there are does not depend on `decisions`: an
// artifact can be told to be out of date by a decision that it never met.
//
// Errors: BAD_OPTION for a decision on anything but a row of this target, and
// for a choice that is none of RowChoices, whether or not the plan has its row.
// The cache of decisions gives none of another version (cache/tuning_cache.h).
//
// Pure. Sizes behind symbols count by their hints' class.
absl::StatusOr<std::vector<std::string>> ApplyTuning(
    KernelPlan& plan, absl::Span<const TunedChoice> decisions,
    const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_APPLY_TUNING_H_

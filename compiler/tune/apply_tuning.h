#ifndef KILN_COMPILER_TUNE_APPLY_TUNING_H_
#define KILN_COMPILER_TUNE_APPLY_TUNING_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// A winner of an earlier measurement.
struct TunedChoice {
  std::string key;     // RowKey
  std::string choice;  // RowChoice's text
};

// Takes decisions over into the kernels of `plan` that they are for. A choice
// whose text is not known (another version's) is passed by.
//
// Gives what was looked up, as CompilePlan.tuned wants it: a line "KEY CHOICE"
// for each key that a row kernel has, sorted by key, its choice empty where
// `decisions` has none. Which keys there are does not depend on `decisions`: an
// artifact can be told to be out of date by a decision that it never met.
//
// Pure. Sizes behind symbols count by their hints' class.
std::vector<std::string> ApplyTuning(KernelPlan& plan,
                                     absl::Span<const TunedChoice> decisions,
                                     const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_APPLY_TUNING_H_

#ifndef KILN_COMPILER_TUNE_TIME_PLAN_H_
#define KILN_COMPILER_TUNE_TIME_PLAN_H_

#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/stopwatch.h"

namespace kiln {

// The built steps of a complete plan, ready for a stopwatch. Symbols are at their hints.
class TimedPlan {
 public:
  // Errors: those of `toolchain`; INTERNAL for a plan with a Fill.
  static absl::StatusOr<TimedPlan> Build(const KernelPlan& plan,
                                         const Target& target,
                                         Toolchain& toolchain);

  // Times each step alone and adds up the medians of `repeats` runs, in seconds. So a
  // step gains nothing from what the one before it left in caches.
  // Errors: those of `stopwatch`.
  absl::StatusOr<double> Seconds(int repeats, Stopwatch& stopwatch) const;

 private:
  using Step = std::variant<TimedKernel, TimedCall>;

  explicit TimedPlan(std::vector<Step> steps) : steps_(std::move(steps)) {}

  std::vector<Step> steps_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_TUNE_TIME_PLAN_H_

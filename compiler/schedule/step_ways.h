#ifndef KILN_COMPILER_SCHEDULE_STEP_WAYS_H_
#define KILN_COMPILER_SCHEDULE_STEP_WAYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// A complete plan for one step of a program, computed in one of several ways.
struct StepWay {
  std::string name;  // the word of tuning decisions
  KernelPlan plan;
};

// Plans the first step with tuning key `key` alone, in each of its ways. `program` is a
// result of LowerGraph; the passes before the one that looks up the key are run over it.
// The way that is chosen without a decision comes first. Kernels and library calls of the
// plans are chosen with the decisions of `env`. Empty if no step has the key.
//
// Errors: of the passes.
absl::StatusOr<std::vector<StepWay>> WaysOfKey(LoopProgram program,
                                               const PassEnv& env,
                                               absl::string_view key);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_STEP_WAYS_H_

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

// A complete plan of one step of a program, computed in one way.
struct StepWay {
  std::string name;  // as decisions name it
  KernelPlan plan;
};

// Takes a program as LowerGraph gives it, runs LoopPipeline up to the pass that looks up
// `key`, and plans the first step of that key alone in each of its ways: what is chosen
// without a decision first. Kernels and calls are as the decisions of `env` name them.
// Empty if no step has the key.
//
// Errors: of the passes.
absl::StatusOr<std::vector<StepWay>> WaysOfKey(LoopProgram program,
                                               const PassEnv& env,
                                               absl::string_view key);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_STEP_WAYS_H_

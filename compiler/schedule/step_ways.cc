#include "compiler/schedule/step_ways.h"

#include <utility>

#include "compiler/schedule/align_contractions.h"
#include "compiler/schedule/compute_ways.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/schedule/step_alone.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::StatusOr<std::vector<StepWay>> PlansOf(std::vector<StepAlone> ways,
                                             absl::string_view key,
                                             PassEnv env) {
  // The programs are aligned already, so their products must not be aligned again.
  env.options.artifact.shape_padding = false;
  env.options.artifact.comprehensive_padding = false;
  std::vector<StepWay> planned;
  for (StepAlone& way : ways) {
    env.tuning[std::string(key)] = way.way;
    ASSIGN_OR_RETURN(KernelPlan plan, PlanKernels(std::move(way.program), env));
    planned.push_back({std::move(way.way), std::move(plan)});
  }
  return planned;
}

}  // namespace

absl::StatusOr<std::vector<StepWay>> WaysOfKey(LoopProgram program,
                                               const PassEnv& env,
                                               absl::string_view key) {
  std::vector<PassRecord> records;
  for (const Pass<LoopProgram>& pass : LoopPipeline()) {
    std::vector<StepAlone> ways;
    if (pass.name == "align_contractions") {
      ways = AlignedWays(program, env.target,
                         AlignOptionsOf(env.options.artifact), env.tuning, key);
    } else if (pass.name == "choose_contractions") {
      ways = ComputeWays(program, env.target, env.options.artifact, key);
    }
    if (!ways.empty()) return PlansOf(std::move(ways), key, env);
    RETURN_IF_ERROR(
        RunPasses<LoopProgram>({pass}, program, env, kLoopInspection, records));
  }
  return std::vector<StepWay>();
}

}  // namespace kiln

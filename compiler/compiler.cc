#include "compiler/compiler.h"

#include <utility>

#include "compiler/codegen/write_kernels.h"
#include "compiler/config/tuning_table_from_wire.h"
#include "compiler/emit/build_compile_plan.h"
#include "compiler/emit/describe_kernels.h"
#include "compiler/lower_request.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/toolchain/toolchain.h"
#include "proto/base/status.h"
#include "proto/plan/plan_verifier.h"

namespace kiln {
namespace {

// Always, as with the kernel plan: a plan that the runtime would refuse should
// not be stored under a key.
absl::Status VerifyEmitted(const wire::CompilePlan& plan) {
  const absl::Status sound = VerifyLaunchPlan(plan, plan.units_size());
  if (sound.ok()) return sound;
  return absl::InternalError(sound.message());
}

}  // namespace

// The story of one compile. Read this first; each line is a room.
absl::StatusOr<CompiledGraph> CompileGraph(const wire::PlanRequest& request) {
  CompiledGraph out;
  ASSIGN_OR_RETURN(LoweredRequest lowered,
                   LowerRequest(request.compile(), out.records));
  lowered.env.tuning = TuningTableFromWire(request.tuning());
  ASSIGN_OR_RETURN(out.plan, PlanLoops(lowered.graph, std::move(lowered.loops),
                                       lowered.env, out.records));
  AddPassCounters(out.records, out.plan);
  return out;
}

absl::StatusOr<wire::CompilePlan> PlanLoops(const Graph& graph,
                                            LoopProgram loops,
                                            const PassEnv& env,
                                            std::vector<PassRecord>& records) {
  ASSIGN_OR_RETURN(KernelPlan plan,
                   PlanKernels(std::move(loops), env, records));
  StepClock steps(records);
  // Always: overlapping memory is a silent fault, and this is a hundredth of
  // the planning.
  RETURN_IF_ERROR(VerifyKernelPlan(plan));
  steps.Done("verify_kernel_plan", plan.steps.size());
  ASSIGN_OR_RETURN(std::vector<KernelSource> sources,
                   WriteKernels(plan, env.target));
  steps.Done("write_kernels", sources.size());
  const std::vector<UnitSource> units = GroupIntoUnits(sources, env.target);
  steps.Done("group_into_units", units.size());
  ASSIGN_OR_RETURN(
      wire::CompilePlan compiled,
      BuildCompilePlan(graph, plan, DescribeKernels(plan, std::move(sources)),
                       units, env.target, UnitFlags(env.target)));
  steps.Done("build_compile_plan",
             static_cast<size_t>(compiled.plan().steps_size()));
  RETURN_IF_ERROR(VerifyEmitted(compiled));
  return compiled;
}

}  // namespace kiln

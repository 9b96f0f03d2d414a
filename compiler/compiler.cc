#include "compiler/compiler.h"

#include <utility>

#include "compiler/codegen/write_kernels.h"
#include "compiler/config/compile_options_from_wire.h"
#include "compiler/config/target_from_wire.h"
#include "compiler/emit/build_compile_plan.h"
#include "compiler/emit/describe_kernels.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/toolchain/toolchain.h"
#include "compiler/tune/apply_tuning.h"
#include "compiler/tune/tuning_from_wire.h"
#include "proto/base/status.h"
#include "proto/plan/plan_verifier.h"

namespace kiln {
namespace {

// A level that breaks its own rules is our bug. Looked for on request: graphs
// and loops together cost a twentieth of the planning.
template <typename Ir>
absl::Status VerifyIfAsked(absl::Status (*verify)(const Ir&), const Ir& ir,
                           const CompileOptions& options) {
  if (!options.diagnostic.verify_passes) return absl::OkStatus();
  return verify(ir);
}

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
  StepClock steps(out.records);

  ASSIGN_OR_RETURN(const Target target,
                   TargetFromWire(request.compile().target()));
  ASSIGN_OR_RETURN(const CompileOptions options,
                   CompileOptionsFromWire(request.compile().options()));
  ASSIGN_OR_RETURN(Graph graph, ImportGraph(request.compile().graph(),
                                            request.compile().forbidden()));
  steps.Done("import_graph", graph.nodes().size());
  RETURN_IF_ERROR(VerifyIfAsked(VerifyGraph, graph, options));

  const PassEnv env{target, options};
  RETURN_IF_ERROR(RunGraphPipeline(graph, env, out.records));
  steps.Restart();

  ASSIGN_OR_RETURN(LoopProgram loops, LowerGraph(graph, options.artifact));
  steps.Done("lower_graph", loops.steps.size());
  RETURN_IF_ERROR(VerifyIfAsked(VerifyLoops, loops, options));
  steps.Restart();
  ASSIGN_OR_RETURN(KernelPlan plan,
                   PlanKernels(std::move(loops), env, out.records));
  steps.Restart();
  ASSIGN_OR_RETURN(std::vector<std::string> tuned,
                   ApplyTuning(plan, TunedChoicesOf(request), target));
  steps.Restart();
  // Always: overlapping memory is a silent fault, and this is a hundredth of
  // the planning. After tuning, which changes tilings.
  RETURN_IF_ERROR(VerifyKernelPlan(plan));
  steps.Done("verify_kernel_plan", plan.steps.size());
  ASSIGN_OR_RETURN(std::vector<KernelSource> sources,
                   WriteKernels(plan, target));
  steps.Done("write_kernels", sources.size());
  const std::vector<UnitSource> units = GroupIntoUnits(sources, target);
  steps.Done("group_into_units", units.size());
  ASSIGN_OR_RETURN(
      out.plan,
      BuildCompilePlan(graph, plan, DescribeKernels(plan, std::move(sources)),
                       units, target, UnitFlags(target), std::move(tuned)));
  steps.Done("build_compile_plan",
             static_cast<size_t>(out.plan.plan().steps_size()));
  RETURN_IF_ERROR(VerifyEmitted(out.plan));
  AddPassCounters(out.records, out.plan);
  return out;
}

}  // namespace kiln

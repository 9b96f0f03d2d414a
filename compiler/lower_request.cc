#include "compiler/lower_request.h"

#include <utility>

#include "compiler/config/compile_options_from_wire.h"
#include "compiler/config/target_from_wire.h"
#include "compiler/graph/graph_import.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "proto/base/status.h"

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

}  // namespace

absl::StatusOr<LoweredRequest> LowerRequest(const wire::CompileRequest& request,
                                            std::vector<PassRecord>& records) {
  StepClock steps(records);
  ASSIGN_OR_RETURN(Target target, TargetFromWire(request.target()));
  ASSIGN_OR_RETURN(CompileOptions options,
                   CompileOptionsFromWire(request.options()));
  ASSIGN_OR_RETURN(Graph graph,
                   ImportGraph(request.graph(), request.forbidden()));
  steps.Done("import_graph", graph.nodes().size());
  RETURN_IF_ERROR(VerifyIfAsked(VerifyGraph, graph, options));

  const PassEnv env{std::move(target), std::move(options)};
  RETURN_IF_ERROR(RunGraphPipeline(graph, env, records));
  steps.Restart();

  ASSIGN_OR_RETURN(LoopProgram loops, LowerGraph(graph, env.options.artifact));
  steps.Done("lower_graph", loops.steps.size());
  RETURN_IF_ERROR(VerifyIfAsked(VerifyLoops, loops, env.options));
  return LoweredRequest{env, std::move(graph), std::move(loops)};
}

}  // namespace kiln

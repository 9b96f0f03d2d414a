#ifndef KILN_COMPILER_COMPILER_H_
#define KILN_COMPILER_COMPILER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "proto/artifact.pb.h"
#include "proto/worker.pb.h"

namespace kiln {

struct CompiledGraph {
  wire::CompilePlan plan;
  // What each pass and step took, in order, with texts when asked for. Not a
  // part of the artifact.
  std::vector<PassRecord> records;
};

// A graph in, everything but object code out. The graph should be canonical
// (proto/key/canonical_graph.h): its names reach no byte of the plan.
//
// Errors: of graph_import.h (MALFORMED_GRAPH, UNSUPPORTED_OP, TOO_LARGE),
// BAD_TARGET, BAD_OPTION; INTERNAL is ours.
//
// Equal requests give equal plans, in any process and locale.
absl::StatusOr<CompiledGraph> CompileGraph(const wire::PlanRequest& request);

// The second half of it: loops in, as LowerGraph made them of `graph`. Errors:
// UNSUPPORTED_OP of a kernel that cannot be written; INTERNAL is ours.
absl::StatusOr<wire::CompilePlan> PlanLoops(const Graph& graph,
                                            LoopProgram loops,
                                            const PassEnv& env,
                                            std::vector<PassRecord>& records);

}  // namespace kiln

#endif  // KILN_COMPILER_COMPILER_H_

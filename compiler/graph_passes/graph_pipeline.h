#ifndef KILN_COMPILER_GRAPH_PASSES_GRAPH_PIPELINE_H_
#define KILN_COMPILER_GRAPH_PASSES_GRAPH_PIPELINE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// The passes over graphs, in order; graph_pipeline.cc says why in that order.
// The whole of them is RunGraphPipeline: separate_results needs to know what the
// graph was before the first.
absl::Span<const Pass<Graph>> GraphPipeline();

// Runs them all. Afterwards the graph is functional and holds nothing but
// kView, kLower and kExtern operators (VerifyLowerable), and its outputs share
// memory where those of the given graph do, and nowhere else
// (separate_results.h).
//
// Errors: UNSUPPORTED_OP names an operator that cannot be taken apart; INTERNAL
// is ours.
absl::Status RunGraphPipeline(Graph& graph, const PassEnv& env,
                              std::vector<PassRecord>& records,
                              const PassRunOptions& options = {});

// What the pipeline promises those after it, besides graph_verifier.h:
//
//   P1  Every node's operator is kView, kLower or kExtern.
//   P2  No mutation writes the memory of one input with that of another input.
//
// INTERNAL with the number, the node, and what it was.
absl::Status VerifyLowerable(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_GRAPH_PIPELINE_H_

#ifndef KILN_COMPILER_GRAPH_PASSES_MERGE_COMMON_NODES_H_
#define KILN_COMPILER_GRAPH_PASSES_MERGE_COMMON_NODES_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Makes nodes of equal operator and arguments one node, the first. Numbers are
// equal when their bits are: 0.0 and -0.0 are two. Not for random operators,
// whose every use is another draw. Linear, by hashing.
//
// Sums and products of two tensors with equal metas get their arguments in the
// order in which the graph computes them, so that a + b and b + a are one node,
// and layers that write the one or the other share their kernels.
//
// Expects a functional graph.
absl::StatusOr<Changed> MergeCommonNodes(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_MERGE_COMMON_NODES_H_

#ifndef KILN_COMPILER_GRAPH_PASSES_REMOVE_DEAD_NODES_H_
#define KILN_COMPILER_GRAPH_PASSES_REMOVE_DEAD_NODES_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Removes every node that no output and no mutation needs. Keeps the order of
// the rest. A node that writes an argument is needed. Linear in nodes and
// edges.
absl::StatusOr<Changed> RemoveDeadNodes(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_REMOVE_DEAD_NODES_H_

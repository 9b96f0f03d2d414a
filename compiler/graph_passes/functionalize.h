#ifndef KILN_COMPILER_GRAPH_PASSES_FUNCTIONALIZE_H_
#define KILN_COMPILER_GRAPH_PASSES_FUNCTIONALIZE_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Removes mutation. An in-place operator becomes its functional form; what
// reads the written memory later, also through another view of it, reads the
// new value; an input whose memory was written gets a row in
// Graph::mutations with the value it must hold at the end.
//
// Afterwards no node writes an argument, and as_strided means a view of its
// argument's dense storage.
//
// UNSUPPORTED_OP for a write through a view that cannot be undone (expand,
// unfold), and for a mutating operator without a functional form. Linear in
// nodes, times the length of view chains that are written through.
absl::StatusOr<Changed> Functionalize(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_FUNCTIONALIZE_H_

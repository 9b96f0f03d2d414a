#ifndef KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_COMPOSITES_H_
#define KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_COMPOSITES_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/pass/pass_runner.h"

namespace kiln {

// Replaces every composite operator by views, loops and library calls: the
// rows of decompose/, one file a family. Results keep their dtype and strides.
//
// A convolution_backward that gives a bias gradient becomes one without, and a
// sum. A transposed convolution whose output padding is a stride or more gets
// its input padded instead.
//
// UNSUPPORTED_OP names an operator that is composite and has no decomposition,
// or whose arguments it does not cover. Linear in nodes.
absl::StatusOr<Changed> DecomposeComposites(Graph& graph, const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_PASSES_DECOMPOSE_COMPOSITES_H_

#ifndef KILN_COMPILER_GRAPH_GRAPH_VERIFIER_H_
#define KILN_COMPILER_GRAPH_GRAPH_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Invariants of a Graph. Breaking one is our bug, never the user's:
// graph_import has refused the user's mistakes already.
//
//   G1  A value names its producer and which of its results it is, and the
//       producer names it; a value without one is an input or a constant, once.
//   G2  Every value a node reads is an input, a constant or the result of an
//       earlier node, and was not left out.
//   G3  A node has the arguments that its schema says, of the types it says.
//   G4  The meta of every result equals what inference gives.
//   G5  Every symbol in a meta, an argument or an output is the graph's.
//   G6  Outputs are values of the graph, with strides for each dimension.
//   G7  What is mutated is an input, once, and its new value has its dtype and
//       sizes.
//   G8  A constant is contiguous and has as many bytes as its meta says.
//
// INTERNAL with the number, the node, what was found and what was expected. Linear.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_GRAPH_VERIFIER_H_

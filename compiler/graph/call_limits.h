#ifndef KILN_COMPILER_GRAPH_CALL_LIMITS_H_
#define KILN_COMPILER_GRAPH_CALL_LIMITS_H_

#include "absl/status/status.h"
#include "compiler/graph/graph.h"

namespace kiln {

// Whether Kiln compiles this call of an operator that it knows: what schema and
// shapes do not say. Asked at import alone, where a refusal names the caller's
// own node, which then goes to the caller's framework.
//
//   dtypes       products, convolutions and poolings of integers that no
//                library call takes, sums of booleans
//   no value     the largest of no elements, an integer by a literal 0: eager
//                mode ends these with an error, and so it may, in its words
//
// A symbol that decides takes a guard. UNSUPPORTED_OP with the operator.
absl::Status CheckCall(Graph& graph, const Node& node);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_CALL_LIMITS_H_

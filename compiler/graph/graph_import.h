#ifndef KILN_COMPILER_GRAPH_GRAPH_IMPORT_H_
#define KILN_COMPILER_GRAPH_GRAPH_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "proto/graph.pb.h"
#include "proto/guard.pb.h"

namespace kiln {

// A wire graph as the compiler's, checked: what comes out is sound by
// graph_verifier.h, whatever went in.
//
// Metas are inferred. What the client says of a result counts only as a check:
// sizes and dtype must agree, strides are ours. Names are made fit for text;
// symbols are called s0, s1, ... in order.
//
// Errors, each with the node or input and what was found and due:
//   MALFORMED_GRAPH  a value used before it is defined, wrong arity or type,
//                    contradicting shapes, a symbol without a source or hinted
//                    outside of its bounds, a name with a control character,
//                    a constant with other bytes than its meta says
//   TOO_LARGE        a tensor of 2^40 elements or more, a constant above 1 MiB,
//                    a name above 1 KiB
//   UNSUPPORTED_OP   an operator, dtype, layout or expression that Kiln does
//                    not compute with; constants that travel apart
//
// One error names all nodes that are MALFORMED_GRAPH or UNSUPPORTED_OP
// (refused_nodes.h), with the reason of the first. It stops at a node whose results the
// client does not declare, or that is TOO_LARGE. Nodes keep the client's numbers
// (Node::client_nodes).
//
// Decisions that sizes alone can make take guards (compiler/sym/shape_env.h).
// None of `forbidden`, conditions over the graph's symbols, is relied on:
//   MALFORMED_GRAPH  the hints satisfy one of them. Hints are the sizes of the
//                    call that broke the guards
//
// Linear in the graph.
absl::StatusOr<Graph> ImportGraph(const wire::Graph& graph,
                                  const wire::GuardSet& forbidden = {});

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_GRAPH_IMPORT_H_

#ifndef KILN_PROTO_KEY_CANONICAL_GRAPH_H_
#define KILN_PROTO_KEY_CANONICAL_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/digest.h"
#include "proto/graph.pb.h"
#include "proto/key/graph_limits.h"

namespace kiln {

// What a Graph is apart from what it is called. Client and daemon compute it
// alike: the client to ask by digest and to map its own symbols, the daemon to
// plan from it, so that equal keys give equal bytes.
//
// Decides: which graphs are the same graph; which are too malformed to look at.
// Leaves alone: what operators mean (compiler/graph). An unknown operator or a
// wrong shape passes here.

// Where symbols went.
struct SymbolMap {
  // For each symbol of the given graph its number in the canonical one; -1
  // when nothing uses it.
  std::vector<int> canonical_of;
  // For each canonical symbol its number in the given graph.
  std::vector<int> original_of;
};

struct CanonicalGraph {
  // Without names and stack traces; symbols numbered as they first appear in
  // inputs, constants, nodes and outputs, unused ones gone; keyword arguments
  // sorted by name; expressions and defaults spelled one way. Values keep their
  // numbers, inputs and outputs their order. A symbol's hint is HintClass.
  wire::Graph graph;
  // SHA-256 of `graph` without hints.
  Digest digest;
  SymbolMap symbols;
};

// The hint of a symbol as compilation sees it: the smallest power of two that
// is not below `hint`, within [min, max] (0, 0: no bounds); 0 stays 0. Sizes of
// one class share an artifact.
int64_t HintClass(int64_t hint, int64_t min, int64_t max);

// Linear in the graph. Pure: equal graphs give equal bytes, on any host.
//
// Errors, each naming the node, input, output or symbol:
//   INVALID_ARGUMENT  MALFORMED_GRAPH  a value that is not there or is defined
//                     later (a cycle is one); an unsound expression; a symbol
//                     that no input shows alone; sizes and strides that differ
//                     in number; a negative size; bounds that exclude each
//                     other; a name with a control character; a constant whose
//                     bytes do not fill it; a field this build does not know
//   OUT_OF_RANGE      TOO_LARGE        a limit of graph_limits.h
//   UNIMPLEMENTED     UNSUPPORTED_OP   a constant by digest
absl::StatusOr<CanonicalGraph> CanonicalizeGraph(const wire::Graph& graph);

}  // namespace kiln

#endif  // KILN_PROTO_KEY_CANONICAL_GRAPH_H_

#ifndef KILN_CACHE_EXPLAIN_H_
#define KILN_CACHE_EXPLAIN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/graph.pb.h"

namespace kiln {

// A canonical graph as lines: one a symbol, input, constant, node and output.
// For comparing two graphs and telling people; nothing parses it.
//
//   input 0: f32[s0, 4] strides [4, 1]
//   node 0: aten.add.Tensor(v0, v0, alpha=1) -> f32[s0, 4] strides [4, 1]
std::string GraphLines(const wire::Graph& graph);

// "line 3: `asked` against `stored`" of the first line that differs; empty
// when the texts are equal.
std::string FirstDifferentLine(absl::string_view asked,
                               absl::string_view stored);

// Under which GraphLines of a graph are kept that a namespace compiled. Who knows no
// more than a graph's digest is told no line of it by another namespace's text.
Digest LinesRecord(const Digest& graph, absl::string_view cache_namespace);

}  // namespace kiln

#endif  // KILN_CACHE_EXPLAIN_H_

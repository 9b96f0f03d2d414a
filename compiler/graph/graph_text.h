#ifndef KILN_COMPILER_GRAPH_GRAPH_TEXT_H_
#define KILN_COMPILER_GRAPH_GRAPH_TEXT_H_

// A Graph as text, and back: parse(print(g)) prints as g does.
//
//   graph @tail(N in [2, 64] = 8) on cuda(%x: f32[N, 4] align 4, int N)
//       -> (%y strides [1, 8], 2*N, none) {
//     guard N < 32 "pad: why it was assumed"
//     %c = constant f32[2] 0x0000803f0000803f
//     %s = add.Tensor(%x, 1.5, alpha=2) : f32[N, 4]
//     %v, %i = max.dim(%s, 1) : f32[N], i64[N]
//     mutate %x = %s
//   }
//
// Operators go without "aten." and ".default". Arguments stand in schema order;
// defaults at the end are left out. A meta has strides and an offset only where
// they are not those of a contiguous tensor.
//
// A reader may leave out: the metas of results (they are inferred), the range
// and hint of a symbol ([0, 2^62], 8), `align` (16 bytes). `donated` behind an
// input says that a run may write to its memory.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/graph.h"

namespace kiln {

// The alignment of an input whose text has no `align`. Wider accesses gain nothing.
inline constexpr uint32_t kTextAlignment = 16;

std::string PrintGraph(const Graph& graph);

// INVALID_ARGUMENT names the line, what was found and what was expected. Errors of
// binding and inference have the line in front. The result may break invariants:
// graph_verifier.h checks them.
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

// The name that text gives each value, without '%'.
std::vector<std::string> ValueNames(const Graph& graph);

// "add.Tensor", "softmax": an operator as in text.
absl::string_view ShortOpName(const OpDef& op);
// The operator that text means, or null.
const OpDef* FindOpByText(absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_GRAPH_GRAPH_TEXT_H_

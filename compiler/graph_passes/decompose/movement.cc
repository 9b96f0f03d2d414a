// Joining and selecting that other operators say.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

Parts Stack(Decomposition& d) {
  Emitter& e = d.e;
  static const OpDef& kCat = KnownOp("aten.cat.default");
  Argument::List pieces;
  int64_t dim = 0;
  for (ValueId v : d.Tensors("tensors")) {
    dim = d.Int("dim");
    if (dim < 0) dim += e.rank(v) + 1;
    pieces.emplace_back(e.Unsqueeze(v, dim));
  }
  return {e.Call(kCat, {std::move(pieces), dim})};
}

constexpr DecomposeRow kRows[] = {
    {"aten.stack.default", Stack},
};

}  // namespace

absl::Span<const DecomposeRow> MovementDecompositions() { return kRows; }

}  // namespace kiln

// Adaptive pooling where every window has the same size.

#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// How many elements a window has along each of the two last dims, where that
// is one constant.
std::optional<std::vector<int64_t>> Windows(const DimVector& in,
                                            const DimVector& out) {
  std::vector<int64_t> windows;
  for (int k = 0; k < 2; ++k) {
    const SymExpr& from = in[in.size() - 2 + k];
    const SymExpr& to = out[out.size() - 2 + k];
    if (!from.is_constant() || !to.is_constant() || to.constant() == 0 ||
        from.constant() % to.constant() != 0) {
      return std::nullopt;
    }
    windows.push_back(from.constant() / to.constant());
  }
  return windows;
}

bool IsOneByOne(const DimVector& sizes) {
  return sizes[sizes.size() - 1].Is(1) && sizes[sizes.size() - 2].Is(1);
}

// A single window is a mean over rows.
Parts AdaptiveAvgPool2d(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const int rank = e.rank(x);
  const DimVector& due = d.result(0).sizes;
  if (IsOneByOne(due)) {
    return {e.Mean(d.Compute("self"), {rank - 2, rank - 1}, Keep::kYes)};
  }
  const auto windows = Windows(e.meta(x).sizes, due);
  if (!windows.has_value()) return d.Unsupported("windows of several sizes");
  const Argument window = ListArgument(*windows);
  return {e.Call("aten.avg_pool2d.default", {x, window, window})};
}

Parts AdaptiveAvgPool2dBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Tensor("grad_output"), x = d.Tensor("self");
  const DimVector sizes = e.meta(x).sizes;
  const auto windows = Windows(sizes, e.meta(g).sizes);
  if (!windows.has_value()) return d.Unsupported("windows of several sizes");
  if (IsOneByOne(e.meta(g).sizes)) {
    const ValueId share =
        e.Div(d.Compute("grad_output"), (*windows)[0] * (*windows)[1]);
    return {e.Contiguous(e.Expand(share, sizes))};
  }
  const Argument window = ListArgument(*windows);
  const Argument none = ListArgument(std::vector<int64_t>{0, 0});
  return {e.Call("aten.avg_pool2d_backward.default",
                 {g, x, window, window, none, false, true, NoneArgument()})};
}

constexpr DecomposeRow kRows[] = {
    {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool2d},
    {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPool2dBackward},
};

}  // namespace

absl::Span<const DecomposeRow> PoolingDecompositions() { return kRows; }

}  // namespace kiln

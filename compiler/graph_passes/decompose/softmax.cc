// Softmax, its logarithm, and their gradients: rows along one dimension.

#include <cmath>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// x minus the largest of its row, which keeps the exponents in range. A row of
// -infinity alone gives NaN, as in eager mode.
ValueId Shifted(Emitter& e, ValueId x, absl::Span<const int64_t> dims) {
  return e.Sub(x, e.Amax(x, dims, Keep::kYes));
}

// Whether there is nothing to compute; amax of an empty row is an error.
bool IsEmpty(const Emitter& e, ValueId x) {
  for (const SymExpr& size : e.meta(x).sizes) {
    if (size.Is(0)) return true;
  }
  return false;
}

// Of a 0-d tensor the only row is its only element.
std::vector<int64_t> RowDims(Decomposition& d, ValueId x) {
  if (d.e.rank(x) == 0) return {};
  return {d.Dim("dim", d.e.rank(x))};
}

Parts Softmax(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  if (IsEmpty(e, x)) return {e.Contiguous(x)};
  const std::vector<int64_t> dims = RowDims(d, x);
  const ValueId exp = e.Exp(Shifted(e, x, dims));
  return {e.Div(exp, e.Sum(exp, dims, Keep::kYes))};
}

// Zeros for a row of -infinity alone.
Parts SafeSoftmax(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  if (IsEmpty(e, x)) return {e.Contiguous(x)};
  const std::vector<int64_t> dims = RowDims(d, x);
  const ValueId top = e.Amax(x, dims, Keep::kYes);
  const ValueId exp = e.Exp(e.Sub(x, top));
  const ValueId y = e.Div(exp, e.Sum(exp, dims, Keep::kYes));
  return {e.Where(e.Eq(top, -INFINITY), 0.0, y)};
}

Parts LogSoftmax(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  if (IsEmpty(e, x)) return {e.Contiguous(x)};
  const std::vector<int64_t> dims = RowDims(d, x);
  const ValueId shifted = Shifted(e, x, dims);
  return {e.Sub(shifted, e.Log(e.Sum(e.Exp(shifted), dims, Keep::kYes)))};
}

// g * y - y * sum(g * y)
Parts SoftmaxBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), y = d.Compute("output");
  const ValueId gy = e.Mul(g, y);
  return {e.Sub(gy, e.Mul(y, e.Sum(gy, RowDims(d, g), Keep::kYes)))};
}

Parts LogSoftmaxBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), y = d.Compute("output");
  const ValueId sum = e.Sum(g, RowDims(d, g), Keep::kYes);
  return {e.Sub(g, e.Mul(e.Exp(y), sum))};
}

constexpr DecomposeRow kRows[] = {
    {"aten._softmax.default", Softmax},
    {"aten.softmax.int", Softmax},
    {"aten._safe_softmax.default", SafeSoftmax},
    {"aten._log_softmax.default", LogSoftmax},
    {"aten.log_softmax.int", LogSoftmax},
    {"aten._softmax_backward_data.default", SoftmaxBackward},
    {"aten._log_softmax_backward_data.default", LogSoftmaxBackward},
};

}  // namespace

absl::Span<const DecomposeRow> SoftmaxDecompositions() { return kRows; }

}  // namespace kiln

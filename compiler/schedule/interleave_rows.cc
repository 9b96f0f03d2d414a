#include "compiler/schedule/interleave_rows.h"

#include <algorithm>
#include <numeric>

#include "compiler/schedule/pad_rows.h"
#include "compiler/schedule/split_contraction.h"

namespace kiln {
namespace {

constexpr size_t kRows = 0, kColumns = 1;

bool ReadsFactorsAlone(const Contraction& c) {
  return std::none_of(c.body.begin(), c.body.end(), [](const ScalarNode& node) {
    return node.op == ScalarOp::kLoad || node.op == ScalarOp::kIndex;
  });
}

// The dimension of the result's view whose index is the axis; -1 if there is none.
int DimensionAlong(const ContractionOperand& result, size_t axis) {
  const SymExpr along = SymExpr::Axis(static_cast<uint32_t>(axis));
  for (size_t d = 0; d < result.index.size(); ++d)
    if (result.index[d] == along) return static_cast<int>(d);
  return -1;
}

}  // namespace

std::optional<InterleavedProduct> InterleaveRows(const Contraction& product) {
  if (product.form != Contraction::Form::kProduct || product.is_batched() ||
      !product.extents[kRows].is_constant() ||
      !product.extents[kColumns].is_constant() || !ReadsFactorsAlone(product)) {
    return std::nullopt;
  }
  const View& view = product.result().view;
  const int rows = DimensionAlong(product.result(), kRows),
            columns = DimensionAlong(product.result(), kColumns);
  if (rows < 0 || columns < 0 || !view.strides[columns].Is(1) ||
      !view.strides[rows].is_constant() || !view.offset.is_constant()) {
    return std::nullopt;
  }
  const int64_t vector = RowAlignment(view.dtype);
  const int64_t length = view.strides[rows].constant();
  const int64_t kinds = vector / std::gcd(vector, length);
  const int64_t m = product.extents[kRows].constant(),
                n = product.extents[kColumns].constant();
  if (kinds == 1 || m < kinds || n < 4 * vector) return std::nullopt;

  InterleavedProduct out;
  const int64_t width = (n - vector + 1) / vector * vector;
  for (int64_t kind = 0; kind < kinds; ++kind) {
    const int64_t begin = view.offset.constant() + kind * length;
    const int64_t first = (vector - begin % vector) % vector;
    const Contraction part = PartOf(product, kRows,
                                    {.first = kind,
                                     .step = kinds,
                                     .count = (m - kind + kinds - 1) / kinds});
    out.aligned.push_back(
        PartOf(part, kColumns, {.first = first, .count = width}));
  }
  out.edges.push_back(PartOf(product, kColumns, {.count = vector}));
  const int64_t last = (n - width + vector - 1) / vector * vector;
  out.edges.push_back(
      PartOf(product, kColumns, {.first = n - last, .count = last}));
  return out;
}

}  // namespace kiln

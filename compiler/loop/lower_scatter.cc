// Writes at computed positions: copies of the base with updates at the positions in an
// index tensor.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/scatter_updates.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// Writes `self` with the updates added to its elements (`accumulate`) or in place of
// them.
absl::Status Write(NodeLowering& n, bool accumulate, SetNumbers numbers,
                   WriteUpdate write) {
  return accumulate ? AddToElements(n, n.tensor(0), write)
                    : SetElements(n, n.tensor(0), write, numbers);
}

// index_put(self, indices, values, accumulate).
absl::Status IndexPut(NodeLowering& n, ScalarOp op) {
  const bool accumulate = n.node.args.size() > 3 && BoolOf(n.arg(3));
  // The shape that indexing self with these indices would give.
  const DimVector& sizes = n.meta(0).sizes;
  const Argument::List& indices = n.arg(1).list();
  DimVector picked;
  std::vector<size_t> where;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].is_none()) where.push_back(d);
  }
  for (const size_t d : where) {
    const DimVector& other = n.g.meta(indices[d].value()).sizes;
    while (picked.size() < other.size()) picked.insert(picked.begin(), 1);
    for (size_t k = 0; k < other.size(); ++k) {
      SymExpr& size = picked[picked.size() - other.size() + k];
      if (size.Is(1)) size = other[k];
    }
  }
  const bool together =
      where.empty() || where.back() - where.front() + 1 == where.size();
  DimVector shape;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d >= indices.size() || indices[d].is_none()) shape.push_back(sizes[d]);
  }
  const size_t first = together && !where.empty() ? where.front() : 0;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(first),
               picked.begin(), picked.end());
  const DimVector& of_values = n.meta(2).sizes;
  const bool one = std::all_of(of_values.begin(), of_values.end(),
                               [](const SymExpr& size) { return size.Is(1); });
  const SetNumbers numbers = one ? SetNumbers::kOne : SetNumbers::kAny;
  const auto update = [&](NestWriter& nest) -> absl::StatusOr<Update> {
    const DimVector at = nest.Iterate(shape);
    ASSIGN_OR_RETURN(const IndexedAccess access,
                     PlaceIndices(nest, n.g, indices, sizes, at, RangeOf(op)));
    const ScalarId value =
        nest.LoadBroadcast(n.tensor(2), at, ComputeType(n.result_meta().dtype));
    return Update{access.index, value, Store::kNoMask, NumberOf(at, shape)};
  };
  return Write(n, accumulate, numbers, update);
}

// scatter(self, dim, index, src) and scatter_add: `op` kAdd accumulates.
absl::Status Scatter(NodeLowering& n, ScalarOp op) {
  const DType type = ComputeType(n.result_meta().dtype);
  const DimVector& sizes = n.meta(0).sizes;
  const SetNumbers numbers =
      n.arg(3).is_value() ? SetNumbers::kAny : SetNumbers::kOne;
  return Write(n, op == ScalarOp::kAdd, numbers, [&](NestWriter& nest) {
    const DimVector at = nest.Iterate(n.meta(2).sizes);
    Update update{at, 0, Store::kNoMask, NumberOf(at, n.meta(2).sizes)};
    if (!sizes.empty()) {
      const size_t dim = n.Dim(1, sizes.size());
      update.index[dim] =
          IndexAt(nest, n.tensor(2), at, sizes[dim], IndexRange::kInside);
    }
    if (n.arg(3).is_value()) {
      // src may be larger than index. Then only its corner is read.
      DimVector from = at;
      for (size_t d = 0; d < from.size(); ++d) {
        if (n.meta(3).sizes[d].Is(1)) from[d] = 0;
      }
      update.value = nest.LoadAs(n.tensor(3), from, type);
    } else {
      update.value = n.Constant(nest.body, type, 3);
    }
    return absl::StatusOr<Update>(update);
  });
}

// index_add(self, dim, index, source, alpha).
absl::Status IndexAdd(NodeLowering& n, ScalarOp) {
  const DType type = ComputeType(n.result_meta().dtype);
  const DimVector& sizes = n.meta(0).sizes;
  return Write(n, true, SetNumbers::kAny, [&](NestWriter& nest) {
    const DimVector at = nest.Iterate(n.meta(3).sizes);
    Update update{.index = at, .value = 0};
    if (!sizes.empty()) {
      const size_t dim = n.Dim(1, sizes.size());
      DimVector place;
      if (n.meta(2).rank() > 0) place.push_back(at[dim]);
      update.index[dim] =
          IndexAt(nest, n.tensor(2), place, sizes[dim], IndexRange::kInside);
    }
    update.value = nest.LoadAs(n.tensor(3), at, type);
    if (n.Number(4, 1) != 1) {
      update.value = nest.body.Op(ScalarOp::kMul, update.value,
                                  n.Constant(nest.body, type, 4));
    }
    return absl::StatusOr<Update>(update);
  });
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, by_freq).
absl::Status EmbeddingBackward(NodeLowering& n, ScalarOp) {
  if (BoolOf(n.arg(4))) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.embedding_dense_backward.default: "
                     "scale_grad_by_freq");
  }
  return AddToElements(n, std::nullopt, [&](NestWriter& nest) {
    BodyBuilder& b = nest.body;
    const DimVector at = nest.Iterate(n.meta(0).sizes);
    const DimVector place(at.begin(), at.end() - 1);
    const ScalarId raw = nest.LoadBroadcast(n.tensor(1), place, DType::kInt64);
    const ScalarId value =
        nest.LoadAs(n.tensor(0), at, ComputeType(n.result_meta().dtype));
    ScalarId mask = Store::kNoMask;
    const SymExpr& padding = n.arg(3).sym();
    if (!n.g.shapes().KnownLt(padding, 0)) {
      mask = b.Op(ScalarOp::kNe, raw, b.Index(padding));
    }
    const SymExpr row =
        nest.IndexInto(n.result_meta().sizes[0], raw, IndexRange::kInside);
    return absl::StatusOr<Update>(Update{{row, at.back()}, value, mask});
  });
}

// as_strided_scatter(self, src, size, stride, offset): writes src into a strided view of
// self, which must be contiguous.
absl::Status AsStridedScatter(NodeLowering& n, ScalarOp) {
  const TensorMeta& self = n.meta(0);
  if (self.strides != ContiguousStrides(self.sizes)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.as_strided_scatter.default: of memory that is not "
                     "contiguous");
  }
  return SetElements(n, n.tensor(0), [&](NestWriter& nest) {
    const DimVector at = nest.Iterate(n.meta(1).sizes);
    const Argument::List& strides = n.arg(3).list();
    SymExpr address = n.node.args.size() > 4 && !n.arg(4).is_none()
                          ? n.arg(4).sym() - self.offset
                          : SymExpr(0);
    for (size_t d = 0; d < at.size(); ++d) address += at[d] * strides[d].sym();
    return absl::StatusOr<Update>(
        Update{ReshapeIndex({address}, {Product(self.sizes)}, self.sizes,
                            n.g.shapes()),
               nest.Load(n.tensor(1), at), Store::kNoMask,
               NumberOf(at, n.meta(1).sizes)});
  });
}

constexpr LowerRow kRows[] = {
    {"aten.as_strided_scatter.default", AsStridedScatter},
    {"aten.index_put.default", IndexPut, ScalarOp::kWrapIndex},
    {"aten._unsafe_index_put.default", IndexPut},
    {"aten.scatter.src", Scatter, ScalarOp::kWhere},
    {"aten.scatter.value", Scatter, ScalarOp::kWhere},
    {"aten.scatter_add.default", Scatter, ScalarOp::kAdd},
    {"aten.index_add.default", IndexAdd},
    {"aten.embedding_dense_backward.default", EmbeddingBackward},
};

}  // namespace

absl::Span<const LowerRow> ScatterLowerings() { return kRows; }

}  // namespace kiln

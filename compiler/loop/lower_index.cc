// Reads at computed positions, and copies with changed coordinates: gathers, flips,
// repeats, paddings, scatters of slices.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

SymExpr IndexAt(NestWriter& nest, ValueId v, const DimVector& at,
                const SymExpr& size, IndexRange range) {
  return nest.IndexInto(size, nest.LoadBroadcast(v, at, DType::kInt64), range);
}

absl::StatusOr<IndexedAccess> PlaceIndices(
    NestWriter& nest, const GraphLowering& g, const Argument::List& indices,
    const DimVector& base_sizes, const DimVector& at, IndexRange range) {
  // The index tensors are broadcast together. Their dimensions are placed where the first
  // one is, or in front if slices separate them.
  int rank = 0;
  std::vector<size_t> where;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d].is_none()) continue;
    where.push_back(d);
    const TensorMeta& m = g.meta(indices[d].value());
    if (m.dtype == DType::kBool || m.dtype == DType::kUInt8) {
      return MakeError(ErrorReason::kUnsupportedOp,
                       "index: by a mask, whose count only the data tells");
    }
    rank = std::max(rank, m.rank());
  }
  const bool together =
      where.empty() || where.back() - where.front() + 1 == where.size();
  const size_t first = where.empty() ? 0 : (together ? where.front() : 0);
  const auto begin = at.begin() + static_cast<std::ptrdiff_t>(first);
  const DimVector index_at(begin, begin + rank);
  DimVector rest(at.begin(), begin);
  rest.insert(rest.end(), begin + rank, at.end());
  IndexedAccess access;
  size_t k = 0;
  for (size_t d = 0; d < base_sizes.size(); ++d) {
    if (d < indices.size() && !indices[d].is_none()) {
      access.index.push_back(
          IndexAt(nest, indices[d].value(), index_at, base_sizes[d], range));
    } else {
      // A sliced dimension of size 1 has index 0 in the result too.
      access.index.push_back(rest[k++]);
    }
  }
  return access;
}

IndexRange RangeOf(ScalarOp row) {
  return row == ScalarOp::kWrapIndex ? IndexRange::kWrapped
                                     : IndexRange::kTrusted;
}

namespace {

absl::Status Index(NodeLowering& n, ScalarOp op) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ASSIGN_OR_RETURN(const IndexedAccess access,
                   PlaceIndices(nest, n.g, n.arg(1).list(), n.meta(0).sizes, at,
                                RangeOf(op)));
  nest.Store(n.result(), at, nest.Load(n.tensor(0), access.index));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status IndexSelect(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const DimVector& sizes = n.meta(0).sizes;
  DimVector from = at;
  if (!sizes.empty()) {
    const size_t dim = n.Dim(1, sizes.size());
    DimVector place;
    if (n.meta(2).rank() > 0) place.push_back(at[dim]);
    from[dim] =
        IndexAt(nest, n.tensor(2), place, sizes[dim], IndexRange::kInside);
  }
  nest.Store(n.result(), at, nest.Load(n.tensor(0), from));
  nest.Finish();
  return absl::OkStatus();
}

// embedding(weight, indices): rows of weight.
absl::Status Embedding(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const DimVector place(at.begin(), at.end() - 1);
  const SymExpr row = IndexAt(nest, n.tensor(1), place, n.meta(0).sizes[0],
                              IndexRange::kInside);
  nest.Store(n.result(), at, nest.Load(n.tensor(0), {row, at.back()}));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Gather(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const DimVector& sizes = n.meta(0).sizes;
  if (n.result_meta().numel().Is(0)) {
    // The index may have another rank then.
    nest.Store(n.result(), at, nest.body.Int(DType::kInt64, 0));
    nest.Finish();
    return absl::OkStatus();
  }
  DimVector from = at;
  if (!sizes.empty()) {
    const size_t dim = n.Dim(1, sizes.size());
    for (size_t d = 0; d < from.size(); ++d) {
      if (sizes[d].Is(1)) from[d] = 0;
    }
    from[dim] = IndexAt(nest, n.tensor(2), at, sizes[dim], IndexRange::kInside);
  }
  nest.Store(n.result(), at, nest.Load(n.tensor(0), from));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Flip(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  DimVector from = at;
  for (const size_t dim : n.Dims(1, sizes.size())) {
    from[dim] = sizes[dim] - 1 - at[dim];
  }
  nest.Store(n.result(), at, nest.Load(n.tensor(0), from));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Repeat(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const DimVector& sizes = n.meta(0).sizes;
  const size_t skip = at.size() - sizes.size();
  DimVector from;
  for (size_t d = 0; d < sizes.size(); ++d) {
    from.push_back(sizes[d].Is(1) ? SymExpr(0) : Mod(at[skip + d], sizes[d]));
  }
  nest.Store(n.result(), at, nest.Load(n.tensor(0), from));
  nest.Finish();
  return absl::OkStatus();
}

// A bool node: low <= e < high. A bound that is not needed is left out.
ScalarId Within(NestWriter& nest, const SymExpr& e, const SymExpr& low,
                const SymExpr& high, bool need_low, bool need_high) {
  BodyBuilder& b = nest.body;
  ScalarId inside = b.Bool(true);
  if (need_low) inside = b.Op(ScalarOp::kGe, b.Index(e), b.Index(low));
  if (need_high) {
    const ScalarId below = b.Op(ScalarOp::kLt, b.Index(e), b.Index(high));
    inside = need_low ? b.Op(ScalarOp::kAnd, inside, below) : below;
  }
  return inside;
}

// constant_pad_nd(self, pad, value): pads are pairs, from the last dimension on; negative
// ones crop.
absl::Status ConstantPad(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const DimVector& sizes = n.meta(0).sizes;
  const Argument::List& pads = n.arg(1).list();
  DimVector from = at;
  ScalarId inside = b.Bool(true);
  for (size_t k = 0; 2 * k + 1 < pads.size(); ++k) {
    const size_t d = sizes.size() - 1 - k;
    const SymExpr &before = pads[2 * k].sym(), &after = pads[2 * k + 1].sym();
    // at[d] is 0 if the result's size is 1; then the position that is read is fixed.
    from[d] = at[d] - before;
    const bool low = !n.g.shapes().KnownLe(before, 0);
    const bool high = !n.g.shapes().KnownLe(after, 0);
    if (low || high) {
      inside = b.Op(ScalarOp::kAnd, inside,
                    Within(nest, from[d], 0, sizes[d], low, high));
    }
  }
  const DType type = ComputeType(n.result_meta().dtype);
  const ScalarId fill = n.Constant(b, type, 2);
  const ScalarId value =
      b.Cast(type, b.node(inside).op == ScalarOp::kConstant
                       ? nest.Load(n.tensor(0), from)
                       : nest.MaskedLoad(n.tensor(0), from, inside));
  nest.Store(n.result(), at, b.Where(inside, value, fill));
  nest.Finish();
  return absl::OkStatus();
}

// The position within a slice of element `at` of a dimension, and whether it is in the
// slice.
struct InSlice {
  SymExpr place;
  ScalarId inside;
};

InSlice PlaceInSlice(NestWriter& nest, const NodeLowering& n, const SymExpr& at,
                     const Argument& start_arg, const SymExpr& step,
                     const SymExpr& full, const SymExpr& count) {
  BodyBuilder& b = nest.body;
  const ShapeEnv& shapes = n.g.shapes();
  SymExpr start = start_arg.is_none() ? SymExpr(0) : start_arg.sym();
  if (shapes.KnownLt(start, 0)) start += full;
  if (shapes.KnownLt(start, 0)) start = 0;
  if (!shapes.KnownLe(start, full)) start = Min(start, full);
  const SymExpr from_start = at - start;
  const bool low = !shapes.KnownLe(start, 0);
  const bool high = !shapes.KnownLe(full, start + count * step);
  ScalarId inside = Within(nest, from_start, 0, count * step, low, high);
  if (step.Is(1)) return {from_start, inside};
  const ScalarId on_step = b.Op(ScalarOp::kEq, b.Index(Mod(from_start, step)),
                                b.Int(DType::kInt64, 0));
  return {FloorDiv(from_start, step), b.Op(ScalarOp::kAnd, inside, on_step)};
}

// Writes `source` where `inside` holds, and `self` (or zeros, if none) elsewhere.
void StoreOver(NestWriter& nest, const NodeLowering& n, const DimVector& at,
               std::optional<ValueId> self, ValueId source,
               const DimVector& source_at, ScalarId inside) {
  BodyBuilder& b = nest.body;
  const DType type = ComputeType(n.result_meta().dtype);
  const bool always = b.node(inside).op == ScalarOp::kConstant;
  const ScalarId part =
      b.Cast(type, always ? nest.Load(source, source_at)
                          : nest.MaskedLoad(source, source_at, inside));
  const ScalarId whole =
      self.has_value() ? nest.LoadAs(*self, at, type) : b.Int(type, 0);
  nest.Store(n.result(), at, b.Where(inside, part, whole));
  nest.Finish();
}

// slice_scatter(self, src, dim, start, end, step).
absl::Status SliceScatter(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const size_t dim = n.Dim(2, sizes.size());
  const InSlice part = PlaceInSlice(nest, n, at[dim], n.arg(3), n.arg(5).sym(),
                                    sizes[dim], n.meta(1).sizes[dim]);
  DimVector source_at = at;
  source_at[dim] = n.meta(1).sizes[dim].Is(1) ? SymExpr(0) : part.place;
  StoreOver(nest, n, at, n.tensor(0), n.tensor(1), source_at, part.inside);
  return absl::OkStatus();
}

// slice_backward(grad, input_sizes, dim, start, end, step): the same on zeros.
absl::Status SliceBackward(NodeLowering& n, ScalarOp) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const size_t dim = n.Dim(2, sizes.size());
  const InSlice part = PlaceInSlice(nest, n, at[dim], n.arg(3), n.arg(5).sym(),
                                    sizes[dim], n.meta(0).sizes[dim]);
  DimVector source_at = at;
  source_at[dim] = n.meta(0).sizes[dim].Is(1) ? SymExpr(0) : part.place;
  StoreOver(nest, n, at, std::nullopt, n.tensor(0), source_at, part.inside);
  return absl::OkStatus();
}

// select_scatter(self, src, dim, index) and select_backward(grad, sizes, dim,
// index).
absl::Status SelectOver(NodeLowering& n, std::optional<ValueId> self,
                        ValueId source) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const size_t dim = n.Dim(2, sizes.size());
  SymExpr index = n.arg(3).sym();
  if (n.g.shapes().KnownLt(index, 0)) index += sizes[dim];
  BodyBuilder& b = nest.body;
  const ScalarId inside =
      sizes[dim].Is(1) ? b.Bool(true)
                       : b.Op(ScalarOp::kEq, b.Index(at[dim]), b.Index(index));
  DimVector source_at = at;
  source_at.erase(source_at.begin() + static_cast<std::ptrdiff_t>(dim));
  StoreOver(nest, n, at, self, source, source_at, inside);
  return absl::OkStatus();
}
absl::Status SelectScatter(NodeLowering& n, ScalarOp) {
  return SelectOver(n, n.tensor(0), n.tensor(1));
}
absl::Status SelectBackward(NodeLowering& n, ScalarOp) {
  return SelectOver(n, std::nullopt, n.tensor(0));
}

// Writes `source` along a diagonal of dimensions a and b, and `self` or zeros elsewhere.
// The last dimension of `source` runs along the diagonal; the others are those of the
// result.
absl::Status DiagonalOver(NodeLowering& n, std::optional<ValueId> self,
                          ValueId source, size_t offset_arg) {
  NestWriter nest = n.Write();
  const DimVector& sizes = n.result_meta().sizes;
  const DimVector at = nest.Iterate(sizes);
  const int64_t offset = n.Int(offset_arg);
  const size_t a = n.Dim(offset_arg + 1, sizes.size());
  const size_t b = n.Dim(offset_arg + 2, sizes.size());
  DimVector source_at;
  for (size_t d = 0; d < at.size(); ++d) {
    if (d != a && d != b) source_at.push_back(at[d]);
  }
  source_at.push_back(n.g.meta(source).sizes.back().Is(1) ? SymExpr(0)
                      : offset >= 0                       ? at[a]
                                                          : at[b]);
  const ScalarId inside = nest.body.Op(
      ScalarOp::kEq, nest.body.Index(at[b] - at[a]), nest.body.Index(offset));
  StoreOver(nest, n, at, self, source, source_at, inside);
  return absl::OkStatus();
}

// diagonal_scatter(self, src, offset, dim1, dim2), diagonal_backward(grad,
// sizes, offset, dim1, dim2), diag_embed(self, offset, dim1, dim2).
absl::Status DiagonalScatter(NodeLowering& n, ScalarOp) {
  return DiagonalOver(n, n.tensor(0), n.tensor(1), 2);
}
absl::Status DiagonalBackward(NodeLowering& n, ScalarOp) {
  return DiagonalOver(n, std::nullopt, n.tensor(0), 2);
}
absl::Status DiagEmbed(NodeLowering& n, ScalarOp) {
  return DiagonalOver(n, std::nullopt, n.tensor(0), 1);
}

constexpr LowerRow kRows[] = {
    {"aten.diagonal_scatter.default", DiagonalScatter},
    {"aten.diagonal_backward.default", DiagonalBackward},
    {"aten.diag_embed.default", DiagEmbed},
    {"aten.index.Tensor", Index, ScalarOp::kWrapIndex},
    {"aten._unsafe_index.Tensor", Index},
    {"aten.index_select.default", IndexSelect},
    {"aten.embedding.default", Embedding},
    {"aten.gather.default", Gather},
    {"aten.flip.default", Flip},
    {"aten.repeat.default", Repeat},
    {"aten.constant_pad_nd.default", ConstantPad},
    {"aten.slice_scatter.default", SliceScatter},
    {"aten.slice_backward.default", SliceBackward},
    {"aten.select_scatter.default", SelectScatter},
    {"aten.select_backward.default", SelectBackward},
};

}  // namespace

absl::Span<const LowerRow> IndexLowerings() { return kRows; }

}  // namespace kiln

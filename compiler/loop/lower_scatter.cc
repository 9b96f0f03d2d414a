// Writes at computed places: the base first (a Fill when it is zeros), then a
// nest that stores where an index tensor says.

#include "absl/strings/str_cat.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

bool IsZeros(const GraphLowering& g, ValueId v) {
  const uint32_t producer = g.graph.value(v).node;
  if (producer == Value::kNoNode) return false;
  const Node& node = g.graph.nodes()[producer];
  const absl::string_view op = node.op->name;
  if (op == "aten.zeros.default" || op == "aten.zeros_like.default" ||
      op == "aten.new_zeros.default") {
    return true;
  }
  return (op == "aten.full.default" || op == "aten.full_like.default") &&
         LiteralOf(node.args[1]) == 0.0;
}

// The buffer that a scatter writes, with `self` in it already. Half types
// accumulate in float32: `finish` casts to the result.
struct ScatterTarget {
  BufferId buffer;
  bool cast_after = false;
};

ScatterTarget PrepareTarget(NodeLowering& n, std::optional<ValueId> self,
                            bool accumulate) {
  const TensorMeta& m = n.result_meta();
  ScatterTarget target;
  target.cast_after = accumulate && IsHalf(m.dtype);
  target.buffer = target.cast_after
                      ? n.g.AddBuffer(BufferKind::kTemporary, DType::kFloat32,
                                      m.sizes, ContiguousStrides(m.sizes))
                      : n.g.PlaceResult(n.result());
  if (!self.has_value() || IsZeros(n.g, *self)) {
    n.g.program.steps.push_back(Fill{target.buffer, Number{.i = 0}});
    return target;
  }
  NestWriter copy = n.Write();
  const DimVector at = copy.Iterate(m.sizes);
  copy.StoreTo(target.buffer, at, copy.Load(*self, at));
  copy.Finish();
  return target;
}

void FinishTarget(NodeLowering& n, const ScatterTarget& target) {
  if (!target.cast_after) return;
  NestWriter cast = n.Write();
  const DimVector at = cast.Iterate(n.result_meta().sizes);
  const ScalarId value = cast.body.Load(target.buffer, DType::kFloat32, at);
  cast.Store(n.result(), at, value);
  cast.Finish();
}

absl::Status RefuseBool(const NodeLowering& n, bool accumulate) {
  if (accumulate && n.result_meta().dtype == DType::kBool) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name, ": sums of booleans"));
  }
  return absl::OkStatus();
}

// index_put(self, indices, values, accumulate).
absl::Status IndexPut(NodeLowering& n, ScalarOp op) {
  const bool accumulate = n.node.args.size() > 3 && BoolOf(n.arg(3));
  RETURN_IF_ERROR(RefuseBool(n, accumulate));
  const ScatterTarget target = PrepareTarget(n, n.tensor(0), accumulate);
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
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(shape);
  ASSIGN_OR_RETURN(const IndexedAccess access,
                   PlaceIndices(nest, n.g, indices, sizes, at, RangeOf(op)));
  const ScalarId value =
      nest.LoadBroadcast(n.tensor(2), at, ComputeType(n.result_meta().dtype));
  nest.StoreTo(target.buffer, access.index, value,
               accumulate ? StoreMode::kAtomicAdd : StoreMode::kSet);
  nest.Finish();
  FinishTarget(n, target);
  return absl::OkStatus();
}

// scatter(self, dim, index, src) and scatter_add: `op` kAdd accumulates.
absl::Status Scatter(NodeLowering& n, ScalarOp op) {
  const bool accumulate = op == ScalarOp::kAdd;
  RETURN_IF_ERROR(RefuseBool(n, accumulate));
  const ScatterTarget target = PrepareTarget(n, n.tensor(0), accumulate);
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.meta(2).sizes);
  const DimVector& sizes = n.meta(0).sizes;
  DimVector to = at;
  if (!sizes.empty()) {
    const size_t dim = n.Dim(1, sizes.size());
    to[dim] = IndexAt(nest, n.tensor(2), at, sizes[dim], IndexRange::kInside);
  }
  ScalarId value;
  if (n.arg(3).is_value()) {
    // src may be larger than index: only its corner is read.
    DimVector from = at;
    for (size_t d = 0; d < from.size(); ++d) {
      if (n.meta(3).sizes[d].Is(1)) from[d] = 0;
    }
    value = nest.LoadAs(n.tensor(3), from, type);
  } else {
    value = n.Constant(nest.body, type, 3);
  }
  nest.StoreTo(target.buffer, to, value,
               accumulate ? StoreMode::kAtomicAdd : StoreMode::kSet);
  nest.Finish();
  FinishTarget(n, target);
  return absl::OkStatus();
}

// index_add(self, dim, index, source, alpha).
absl::Status IndexAdd(NodeLowering& n, ScalarOp) {
  RETURN_IF_ERROR(RefuseBool(n, true));
  const ScatterTarget target = PrepareTarget(n, n.tensor(0), true);
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.meta(3).sizes);
  const DimVector& sizes = n.meta(0).sizes;
  DimVector to = at;
  if (!sizes.empty()) {
    const size_t dim = n.Dim(1, sizes.size());
    DimVector place;
    if (n.meta(2).rank() > 0) place.push_back(at[dim]);
    to[dim] =
        IndexAt(nest, n.tensor(2), place, sizes[dim], IndexRange::kInside);
  }
  ScalarId value = nest.LoadAs(n.tensor(3), at, type);
  if (n.Number(4, 1) != 1) {
    value = nest.body.Op(ScalarOp::kMul, value, n.Constant(nest.body, type, 4));
  }
  nest.StoreTo(target.buffer, to, value, StoreMode::kAtomicAdd);
  nest.Finish();
  FinishTarget(n, target);
  return absl::OkStatus();
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, by_freq).
absl::Status EmbeddingBackward(NodeLowering& n, ScalarOp) {
  if (BoolOf(n.arg(4))) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.embedding_dense_backward.default: "
                     "scale_grad_by_freq");
  }
  const ScatterTarget target = PrepareTarget(n, std::nullopt, true);
  NestWriter nest = n.Write();
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
  nest.StoreTo(target.buffer, {row, at.back()}, value, StoreMode::kAtomicAdd,
               mask);
  nest.Finish();
  FinishTarget(n, target);
  return absl::OkStatus();
}

// as_strided_scatter(self, src, size, stride, offset): src over the memory of
// self, which must be contiguous.
absl::Status AsStridedScatter(NodeLowering& n, ScalarOp) {
  const TensorMeta& self = n.meta(0);
  if (self.strides != ContiguousStrides(self.sizes)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     "aten.as_strided_scatter.default: of memory that is not "
                     "contiguous");
  }
  const ScatterTarget target = PrepareTarget(n, n.tensor(0), false);
  NestWriter nest = n.Write();
  const DimVector at = nest.Iterate(n.meta(1).sizes);
  const Argument::List& strides = n.arg(3).list();
  SymExpr address = n.node.args.size() > 4 && !n.arg(4).is_none()
                        ? n.arg(4).sym() - self.offset
                        : SymExpr(0);
  for (size_t d = 0; d < at.size(); ++d) address += at[d] * strides[d].sym();
  const DimVector to =
      ReshapeIndex({address}, {Product(self.sizes)}, self.sizes, n.g.shapes());
  nest.StoreTo(target.buffer, to, nest.Load(n.tensor(1), at));
  nest.Finish();
  FinishTarget(n, target);
  return absl::OkStatus();
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

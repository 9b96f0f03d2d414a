// Scatters that combine by more than a sum.

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "compiler/loop/ordered_keys.h"
#include "compiler/loop/scatter_updates.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

struct Combine {
  ReduceOp reduce;
  ScalarOp with_self;  // combines that value with the element itself
  bool mean = false;
};

absl::StatusOr<Combine> CombineNamed(const NodeLowering& n,
                                     const Argument& name) {
  const auto* text = std::get_if<std::string>(&name.v);
  const std::string word = text == nullptr ? "" : *text;
  if (word == "sum") return Combine{ReduceOp::kSum, ScalarOp::kAdd};
  if (word == "mean") return Combine{ReduceOp::kSum, ScalarOp::kAdd, true};
  if (word == "prod") return Combine{ReduceOp::kProd, ScalarOp::kMul};
  if (word == "amax") {
    return Combine{ReduceOp::kMax, ScalarOp::kMaximum};
  }
  if (word == "amin") return Combine{ReduceOp::kMin, ScalarOp::kMinimum};
  return MakeError(ErrorReason::kMalformedGraph,
                   absl::StrCat(n.node.op->name, ": reduce \"", word, "\""));
}

ScalarId One(BodyBuilder& b, DType type) {
  return IsFloat(type) ? b.Float(type, 1) : b.Int(type, 1);
}

// Small integers and booleans are combined as i32; the store wraps.
DType CombineType(DType dtype) {
  const DType type = ComputeType(dtype);
  return !IsFloat(type) && SizeInBytes(type) < 4 ? DType::kInt32 : type;
}

// The update of one point. scatter_reduce has an index for each element of the source,
// index_reduce one for each position along `dim`.
Update ReadUpdate(NestWriter& nest, const NodeLowering& n, DType type) {
  const DimVector& sizes = n.meta(0).sizes;
  const DimVector& given = n.meta(3).sizes;
  const bool listed = n.origin == "index_reduce";
  const DimVector& over = listed ? given : n.meta(2).sizes;
  const DimVector at = nest.Iterate(over);
  DimVector from = at;
  from.resize(given.size(), 0);
  for (size_t d = 0; d < given.size(); ++d)
    if (given[d].Is(1)) from[d] = 0;
  Update update{.index = at,
                .value = nest.LoadAs(n.tensor(3), from, type),
                .number = NumberOf(at, over)};
  update.index.resize(sizes.size(), 0);
  DimVector place = at;
  if (sizes.empty()) {
    IndexAt(nest, n.tensor(2), place, 1, IndexRange::kInside);
    return update;
  }
  const size_t dim = n.Dim(1, sizes.size());
  if (listed) {
    place.clear();
    if (n.meta(2).rank() > 0) place.push_back(at[dim]);
  }
  update.index[dim] =
      IndexAt(nest, n.tensor(2), place, sizes[dim], IndexRange::kInside);
  return update;
}

// Counts the updates of each element.
absl::StatusOr<BufferId> CountUpdates(NodeLowering& n, WriteUpdate write) {
  const BufferId hits = FilledCells(n, DType::kInt32, Number{.i = 0});
  RETURN_IF_ERROR(ApplyUpdates(n, write, hits, StoreMode::kAtomicAdd,
                               [](NestWriter& nest, const Update&) {
                                 return nest.body.Int(DType::kInt32, 1);
                               }));
  return hits;
}

// Products in any order. Cells start with the element itself, or with 1.
absl::Status Multiply(NodeLowering& n, bool include_self, WriteUpdate write) {
  const DimVector& sizes = n.result_meta().sizes;
  const DType type = CombineType(n.result_meta().dtype);
  const BufferId cells = n.g.AddBuffer(BufferKind::kTemporary, type, sizes,
                                       ContiguousStrides(sizes));
  NestWriter start = n.Write();
  const DimVector first = start.Iterate(sizes);
  start.StoreTo(cells, first,
                include_self ? start.LoadAs(n.tensor(0), first, type)
                             : One(start.body, type));
  start.Finish();
  RETURN_IF_ERROR(ApplyUpdates(
      n, write, cells, StoreMode::kAtomicMul,
      [](NestWriter&, const Update& update) { return update.value; }));
  std::optional<BufferId> counts;
  if (!include_self) {
    ASSIGN_OR_RETURN(counts, CountUpdates(n, write));
  }
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(sizes);
  ScalarId value = nest.LoadCell(cells, at);
  if (counts.has_value()) {
    const ScalarId any = b.Op(ScalarOp::kGt, nest.LoadCell(*counts, at),
                              b.Int(DType::kInt32, 0));
    value = b.Where(any, value, nest.LoadAs(n.tensor(0), at, type));
  }
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

absl::Status SumOrMean(NodeLowering& n, bool mean, bool include_self,
                       WriteUpdate write) {
  ASSIGN_OR_RETURN(const UpdateSums sums, SumUpdates(n, write));
  ASSIGN_OR_RETURN(const BufferId counts, CountUpdates(n, write));
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  ScalarId value = ReadSum(nest, sums, at);
  const DType type = b.dtype(value);
  const ScalarId hits = nest.LoadCell(counts, at);
  const ScalarId one = b.Int(DType::kInt32, 1);
  const ScalarId self = nest.LoadAs(n.tensor(0), at, type);
  if (include_self) value = b.Op(ScalarOp::kAdd, self, value);
  if (mean) {
    const ScalarId terms = include_self ? b.Op(ScalarOp::kAdd, hits, one)
                                        : b.Op(ScalarOp::kMaximum, hits, one);
    value = b.Op(IsFloat(type) ? ScalarOp::kDiv : ScalarOp::kFloorDiv, value,
                 b.Cast(type, terms));
  }
  const ScalarId any = b.Op(ScalarOp::kGe, hits, one);
  value = b.Where(any, value, self);
  nest.Store(n.result(), at, b.Cast(CombineType(n.result_meta().dtype), value));
  nest.Finish();
  return absl::OkStatus();
}

absl::Status Extreme(NodeLowering& n, const Combine& combine, bool include_self,
                     WriteUpdate write) {
  const DType type = CombineType(n.result_meta().dtype);
  const OrderedKeys keys(type, combine.reduce == ReduceOp::kMin);
  const BufferId extremes =
      FilledCells(n, keys.key(), Number{.i = keys.none()});
  RETURN_IF_ERROR(ApplyUpdates(n, write, extremes, StoreMode::kAtomicMax,
                               [&](NestWriter& nest, const Update& update) {
                                 return keys.KeyOf(nest.body, update.value);
                               }));
  // No value of an i64 can mean "no update", so updates are counted.
  std::optional<BufferId> counts;
  if (type == DType::kInt64 && !include_self) {
    ASSIGN_OR_RETURN(counts, CountUpdates(n, write));
  }
  NestWriter nest = n.Write();
  BodyBuilder& b = nest.body;
  const DimVector at = nest.Iterate(n.result_meta().sizes);
  const ScalarId key = nest.LoadCell(extremes, at);
  const ScalarId self = nest.LoadAs(n.tensor(0), at, type);
  const ScalarId any =
      counts.has_value()
          ? b.Op(ScalarOp::kGt, nest.LoadCell(*counts, at),
                 b.Int(DType::kInt32, 0))
          : b.Op(ScalarOp::kNe, key, b.Int(keys.key(), keys.none()));
  ScalarId value = keys.ValueOf(b, key);
  if (include_self) value = b.Op(combine.with_self, self, value);
  nest.Store(n.result(), at, b.Where(any, value, self));
  nest.Finish();
  return absl::OkStatus();
}

// (self, dim, index, source, reduce, *, include_self)
absl::Status ScatterReduce(NodeLowering& n, ScalarOp) {
  ASSIGN_OR_RETURN(const Combine combine, CombineNamed(n, n.arg(4)));
  const bool include_self = BoolOf(n.arg(5));
  const DType type = CombineType(n.result_meta().dtype);
  const bool order_matters = IsFloat(type) && n.g.options.deterministic &&
                             n.g.graph.device == DeviceType::kCuda;
  if (combine.reduce == ReduceOp::kProd && order_matters) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat(n.node.op->name,
                                  ": a product in a fixed order, which "
                                  "decompose makes of a sort"));
  }
  const auto write = [&](NestWriter& nest) {
    return absl::StatusOr<Update>(ReadUpdate(nest, n, type));
  };
  const bool plain_sum = combine.reduce == ReduceOp::kSum && !combine.mean;
  if (plain_sum && include_self && n.result_meta().dtype != DType::kBool)
    return AddToElements(n, n.tensor(0), write);
  if (combine.reduce == ReduceOp::kProd)
    return Multiply(n, include_self, write);
  return combine.reduce == ReduceOp::kSum
             ? SumOrMean(n, combine.mean, include_self, write)
             : Extreme(n, combine, include_self, write);
}

constexpr LowerRow kRows[] = {
    {"aten.scatter_reduce.two", ScatterReduce},
    {"aten.index_reduce.default", ScatterReduce},
};

}  // namespace

absl::Span<const LowerRow> ScatterReduceLowerings() { return kRows; }

}  // namespace kiln

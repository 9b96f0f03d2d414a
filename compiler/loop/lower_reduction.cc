// Reductions and scans. Reduced dimensions become reduction axes. An argmax or argmin has
// the row-major coordinate as its second value, so that "the first of equals" does not
// depend on how axes are split later.

#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/loop/lowering.h"
#include "proto/base/status.h"

namespace kiln {

namespace {

// A nest over the dimensions that are kept, then over the reduced ones.
struct Reduced {
  NestWriter nest;
  DimVector input_at;   // for each dimension of the input
  DimVector result_at;  // for each dimension of the result
  SymExpr linear = 0;   // coordinate within the reduced dimensions
  // False if all reduced dimensions have size 1. Then the nest has no reduction axis, and
  // the only element is the result.
  bool combines = false;
};

Reduced IterateReduced(const NodeLowering& n,
                       const std::vector<bool>& reduced) {
  Reduced r{n.Write(), {}, {}, 0};
  const DimVector& sizes = n.meta(0).sizes;
  const size_t result_rank = n.result_meta().sizes.size();
  const bool keepdim = result_rank == sizes.size();
  DimVector kept, gone;
  for (size_t d = 0; d < sizes.size(); ++d) {
    (reduced[d] ? gone : kept).push_back(sizes[d]);
  }
  const DimVector kept_at = r.nest.Iterate(kept);
  const DimVector gone_at = r.nest.Iterate(gone, /*reduction=*/true);
  for (const SymExpr& size : gone) r.combines |= !size.Is(1);
  size_t k = 0, g = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (reduced[d]) {
      r.linear = r.linear * sizes[d] + gone_at[g];
      r.input_at.push_back(gone_at[g++]);
      if (keepdim) r.result_at.push_back(0);
    } else {
      r.input_at.push_back(kept_at[k]);
      r.result_at.push_back(kept_at[k++]);
    }
  }
  return r;
}

// None or an empty list: all dimensions.
std::vector<bool> ReducedDims(const NodeLowering& n,
                              std::optional<size_t> argument) {
  const size_t rank = n.meta(0).sizes.size();
  if (!argument.has_value()) return std::vector<bool>(rank, true);
  const auto dims = n.Dims(*argument, rank);
  std::vector<bool> reduced(rank, dims.empty());
  for (const size_t dim : dims) {
    if (rank > 0) reduced[dim] = true;
  }
  return reduced;
}

// The dimension argument: the first parameter named dim or dims.
std::optional<size_t> DimArgument(const NodeLowering& n) {
  const auto& params = n.node.op->schema.params;
  for (size_t i = 0; i < params.size() && i < n.node.args.size(); ++i) {
    if (params[i].name == "dim" || params[i].name == "dims") return i;
  }
  return std::nullopt;
}

ReduceOp ReduceOf(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
      return ReduceOp::kSum;
    case ScalarOp::kMul:
      return ReduceOp::kProd;
    case ScalarOp::kMaximum:
      return ReduceOp::kMax;
    case ScalarOp::kMinimum:
      return ReduceOp::kMin;
    case ScalarOp::kOr:
      return ReduceOp::kAny;
    case ScalarOp::kAnd:
      return ReduceOp::kAll;
    default:  // rows have only these six
      return ReduceOp::kXor;
  }
}

// sum, prod, amax, amin, any, all.
absl::Status Reduction(NodeLowering& n, ScalarOp op) {
  Reduced r = IterateReduced(n, ReducedDims(n, DimArgument(n)));
  const ReduceOp reduce = ReduceOf(op);
  DType type = ComputeType(n.result_meta().dtype);
  ScalarId value = r.nest.Load(n.tensor(0), r.input_at);
  if (reduce == ReduceOp::kAny || reduce == ReduceOp::kAll) {
    type = DType::kBool;
    value = r.nest.body.Cast(ComputeType(n.meta(0).dtype), value);
  }
  value = r.nest.body.Cast(type, value);
  // For booleans, the maximum is any and the minimum is all.
  ReduceOp as = reduce;
  if (type == DType::kBool) {
    if (reduce == ReduceOp::kMax) as = ReduceOp::kAny;
    if (reduce == ReduceOp::kMin) as = ReduceOp::kAll;
  }
  if (r.combines) value = r.nest.body.Reduce(as, type, {&value, 1});
  r.nest.Store(n.result(), r.result_at, value);
  r.nest.Finish();
  return absl::OkStatus();
}

// The largest or smallest element and its position.
struct Extreme {
  ScalarId value;
  ScalarId index;
};

Extreme ArgReduce(Reduced& r, const NodeLowering& n, ScalarOp op) {
  BodyBuilder& b = r.nest.body;
  DType type = ComputeType(n.meta(0).dtype);
  ScalarId value = r.nest.LoadAs(n.tensor(0), r.input_at, type);
  // Small integers and booleans are compared as i32.
  if (!IsFloat(type) && SizeInBytes(type) < 4) {
    type = DType::kInt32;
    value = b.Cast(type, value);
  }
  const ScalarId args[] = {value, b.Index(r.linear)};
  if (!r.combines) return {args[0], args[1]};
  const ScalarId reduce =
      b.Reduce(op == ScalarOp::kMaximum ? ReduceOp::kArgMax : ReduceOp::kArgMin,
               type, args);
  ScalarNode index{ScalarOp::kReduceResult, DType::kInt64};
  index.args.push_back(reduce);
  index.number.i = 1;
  return {reduce, b.Add(std::move(index))};
}

// max.dim, min.dim: the value and its position.
absl::Status ValueAndIndex(NodeLowering& n, ScalarOp op) {
  Reduced r = IterateReduced(n, ReducedDims(n, 1));
  const Extreme extreme = ArgReduce(r, n, op);
  r.nest.Store(n.result(0), r.result_at, extreme.value);
  r.nest.Store(n.result(1), r.result_at, extreme.index);
  r.nest.Finish();
  return absl::OkStatus();
}

// argmax, argmin: over one dimension, or over all, flattened.
absl::Status IndexOnly(NodeLowering& n, ScalarOp op) {
  Reduced r = IterateReduced(n, ReducedDims(n, 1));
  r.nest.Store(n.result(), r.result_at, ArgReduce(r, n, op).index);
  r.nest.Finish();
  return absl::OkStatus();
}

// The running combine of `value` along the last axis of the nest.
ScalarId Running(BodyBuilder& b, ReduceOp reduce, ScalarId value) {
  ScalarNode scan{ScalarOp::kScan, b.dtype(value), reduce};
  scan.args.push_back(value);
  return b.Add(std::move(scan));
}

// Inclusive, along one dimension.
absl::Status ScanBy(NodeLowering& n, ReduceOp reduce) {
  const DimVector& sizes = n.meta(0).sizes;
  const DType type = ComputeType(n.result_meta().dtype);
  NestWriter nest = n.Write();
  if (sizes.empty()) {
    nest.Store(n.result(), {}, nest.LoadAs(n.tensor(0), {}, type));
    nest.Finish();
    return absl::OkStatus();
  }
  const size_t dim = n.Dim(1, sizes.size());
  DimVector outer = sizes;
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(dim));
  DimVector at = nest.Iterate(outer);
  const DimVector along = nest.Iterate({sizes[dim]}, /*reduction=*/true);
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), along[0]);
  ScalarId value = nest.LoadAs(n.tensor(0), at, type);
  if (!sizes[dim].Is(1)) {
    value = Running(nest.body, reduce, value);
  }
  nest.Store(n.result(), at, value);
  nest.Finish();
  return absl::OkStatus();
}

// cumsum and cumprod.
absl::Status Scan(NodeLowering& n, ScalarOp op) {
  return ScanBy(n, ReduceOf(op));
}
absl::Status LogCumSumExp(NodeLowering& n, ScalarOp) {
  return ScanBy(n, ReduceOp::kLogSumExp);
}

// cummax and cummin: the running extreme and its position, the last one so far that has
// this value (or NaN, once there is one).
absl::Status RunningExtreme(NodeLowering& n, ScalarOp op) {
  const DimVector& sizes = n.meta(0).sizes;
  const size_t dim = n.Dim(1, sizes.size());
  const bool single = sizes.empty() || sizes[dim].Is(1);
  DType type = ComputeType(n.meta(0).dtype);
  if (type == DType::kBool) type = DType::kInt32;
  const BufferId extremes = n.g.PlaceResult(n.result(0));
  const auto iterate = [&](NestWriter& nest) {
    if (single) return nest.Iterate(sizes);
    DimVector outer = sizes;
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(dim));
    DimVector at = nest.Iterate(outer);
    const DimVector along = nest.Iterate({sizes[dim]}, /*reduction=*/true);
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), along[0]);
    return at;
  };
  NestWriter first = n.Write();
  DimVector at = iterate(first);
  ScalarId value = first.LoadAs(n.tensor(0), at, type);
  if (!single) value = Running(first.body, ReduceOf(op), value);
  first.StoreTo(extremes, at, value);
  first.Finish();

  NestWriter second = n.Write();
  BodyBuilder& b = second.body;
  at = iterate(second);
  ScalarId place = b.Int(DType::kInt64, 0);
  if (!single) {
    const ScalarId x = second.LoadAs(n.tensor(0), at, type);
    const ScalarId top =
        b.Cast(type, b.Load(extremes, n.result_meta().dtype, at));
    ScalarId reached = b.Op(ScalarOp::kEq, x, top);
    if (IsFloat(type)) {
      reached = b.Op(ScalarOp::kOr, reached, b.Op(ScalarOp::kIsNan, x));
    }
    const ScalarId here = b.Where(reached, b.Index(at[dim]), place);
    place = Running(b, ReduceOp::kMax, here);
  }
  second.Store(n.result(1), at, place);
  second.Finish();
  return absl::OkStatus();
}

constexpr LowerRow kRows[] = {
    {"aten.cummax.default", RunningExtreme, ScalarOp::kMaximum},
    {"aten.cummin.default", RunningExtreme, ScalarOp::kMinimum},
    {"aten.sum.default", Reduction, ScalarOp::kAdd},
    {"aten.sum.dim_IntList", Reduction, ScalarOp::kAdd},
    {"aten.prod.default", Reduction, ScalarOp::kMul},
    {"aten.prod.dim_int", Reduction, ScalarOp::kMul},
    {"aten.amax.default", Reduction, ScalarOp::kMaximum},
    {"aten.amin.default", Reduction, ScalarOp::kMinimum},
    {"aten.max.default", Reduction, ScalarOp::kMaximum},
    {"aten.min.default", Reduction, ScalarOp::kMinimum},
    {"aten.any.default", Reduction, ScalarOp::kOr},
    {"aten.any.dim", Reduction, ScalarOp::kOr},
    {"aten.any.dims", Reduction, ScalarOp::kOr},
    {"aten.all.default", Reduction, ScalarOp::kAnd},
    {"aten.all.dim", Reduction, ScalarOp::kAnd},
    {"aten.all.dims", Reduction, ScalarOp::kAnd},
    {"aten.max.dim", ValueAndIndex, ScalarOp::kMaximum},
    {"aten.min.dim", ValueAndIndex, ScalarOp::kMinimum},
    {"aten.argmax.default", IndexOnly, ScalarOp::kMaximum},
    {"aten.argmin.default", IndexOnly, ScalarOp::kMinimum},
    {"aten.cumsum.default", Scan, ScalarOp::kAdd},
    {"aten.cumprod.default", Scan, ScalarOp::kMul},
    {"aten.logcumsumexp.default", LogCumSumExp},
};

}  // namespace

absl::Span<const LowerRow> ReductionLowerings() { return kRows; }

}  // namespace kiln

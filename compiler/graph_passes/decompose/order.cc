// On the CPU sorting is a library call, row by row. On CUDA a kernel sorts rows
// that fit its shared memory, or finds the first of longer ones
// (prims.sort_rows). Rows of 64-bit values and other long ones are sorted digit by
// digit (prims.sort_values). Ranks, medians and modes are read from a sort.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph/sort_limits.h"
#include "compiler/graph_passes/decompose/decomposition.h"
#include "compiler/graph_passes/decompose/ordered.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// What is compared: booleans as integers.
ValueId Comparable(Emitter& e, ValueId x) {
  return e.dtype(x) == DType::kBool ? e.ToDType(x, DType::kInt32) : x;
}

bool HasLibrary(const Decomposition& d) {
  return d.target().kind == TargetKind::kCpu;
}

// The rows of a tensor along one of its dimensions, as a matrix.
class RowsAlong {
 public:
  RowsAlong(Emitter& e, ValueId x, int64_t dim)
      : e_(e), dim_(dim), last_(e.rank(x) - 1) {
    const ValueId moved = Swapped(x);
    sizes_ = e.meta(moved).sizes;
    SymExpr rows = 1;
    for (int64_t d = 0; d < last_; ++d) rows = rows * sizes_[d];
    matrix_ = e.Reshape(moved, {rows, sizes_[last_]});
  }

  ValueId matrix() const { return matrix_; }

  // A matrix of as many rows, `count` long each, in the tensor's shape again.
  ValueId Back(ValueId matrix, const SymExpr& count) const {
    DimVector sizes = sizes_;
    sizes[last_] = count;
    return Swapped(e_.Reshape(matrix, sizes));
  }

 private:
  ValueId Swapped(ValueId v) const {
    return dim_ == last_ ? v : e_.Transpose(v, dim_, last_);
  }

  Emitter& e_;
  const int64_t dim_, last_;
  DimVector sizes_;
  ValueId matrix_;
};

// One call of the library on the rows of `x` along `dim`; `count` of each stay.
// Sizes by value: those of a graph that grows move.
Ordered CallOrder(Emitter& e, ValueId x, int64_t dim, SymExpr count, SymExpr k,
                  bool largest, absl::string_view how) {
  static const OpDef& kOrder = KnownOp("prims.order.default");
  const RowsAlong rows(e, x, dim);
  const auto both =
      e.CallAll(kOrder, {rows.matrix(), count, k, largest, std::string(how)});
  if (both.size() < 2)  // refused: e.status() says why
    return {rows.matrix(), rows.matrix()};
  return {rows.Back(both[0], count), rows.Back(both[1], count)};
}

// What one kernel sorts: keys of 32 bits, rows in shared memory; of longer rows the
// first places. Rows that are short at the hints stay so, by a guard.
bool MaySortRows(Emitter& e, ValueId x, int64_t dim, const SymExpr& count) {
  if (SizeInBytes(e.dtype(x)) > 4) return false;
  if (count.is_constant() && count.constant() > 0 &&
      count.constant() <= kMostPlaces) {
    return true;
  }
  ShapeEnv& shapes = e.graph().shapes;
  const SymExpr& size = e.meta(x).sizes[dim];
  return shapes.Range(size).max <= kMostSorted ||
         (shapes.Hint(size) <= kMostSorted &&
          shapes.DecideLe(size, kMostSorted, "sort of short rows"));
}

// The first `count` of each row in order.
Ordered SortRows(Emitter& e, ValueId x, int64_t dim, SymExpr count,
                 bool descending) {
  static const OpDef& kSortRows = KnownOp("prims.sort_rows.default");
  const RowsAlong rows(e, x, dim);
  const ValueId places = e.Call(kSortRows, {rows.matrix(), count, descending});
  const ValueId where = rows.Back(places, count);
  return {e.Gather(x, dim, where), where};
}

// The first `count` of each row in order, of rows of any length.
Ordered SortValues(Emitter& e, ValueId x, int64_t dim, SymExpr count,
                   bool descending) {
  static const OpDef& kSortValues = KnownOp("prims.sort_values.default");
  const RowsAlong rows(e, x, dim);
  const auto both = e.CallAll(kSortValues, {rows.matrix(), count, descending});
  if (both.size() < 2)  // refused: e.status() says why
    return {rows.matrix(), rows.matrix()};
  return {rows.Back(both[0], count), rows.Back(both[1], count)};
}

Ordered First(Emitter& e, ValueId x, int64_t dim, SymExpr count,
              bool descending) {
  return MaySortRows(e, x, dim, count)
             ? SortRows(e, x, dim, count, descending)
             : SortValues(e, x, dim, count, descending);
}

// The element at `place` of each row in ascending order, among the first `count`;
// size 1 stays. `place` has x's sizes, but 1 along `dim`.
Ordered At(Emitter& e, ValueId x, int64_t dim, SymExpr count, ValueId place) {
  const ValueId sorted = First(e, x, dim, count, false).places;
  const ValueId places = e.Gather(sorted, dim, place);
  return {e.Gather(x, dim, places), places};
}

// The last of the first `count` of each row in ascending order.
Ordered LastOf(Emitter& e, ValueId x, int64_t dim, SymExpr count) {
  const ValueId sorted = First(e, x, dim, count, false).places;
  const ValueId places = e.Slice(sorted, dim, count - 1, count, 1);
  return {e.Gather(x, dim, places), places};
}

// A 0-d tensor is a row of one meanwhile.
ValueId AsRow(Emitter& e, ValueId x) {
  return e.rank(x) == 0 ? e.View(x, {1}) : x;
}

Parts WithSizes(Decomposition& d, const Ordered& o) {
  return {d.e.Reshape(o.values, d.result(0).sizes),
          d.e.Reshape(o.places, d.result(0).sizes)};
}

Parts Sort(Decomposition& d) {
  const ValueId x = AsRow(d.e, d.Tensor("self"));
  const int64_t dim = d.Dim("dim", d.e.rank(x));
  const bool descending = d.Bool("descending");
  if (HasLibrary(d)) {
    return WithSizes(d, CallOrder(d.e, x, dim, d.e.meta(x).sizes[dim], 0,
                                  descending, "sort"));
  }
  const SymExpr count = d.e.meta(x).sizes[dim];
  return WithSizes(d, First(d.e, x, dim, count, descending));
}

Parts Topk(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = AsRow(e, d.Tensor("self"));
  const int64_t dim = d.Dim("dim", e.rank(x));
  const SymExpr k = d.Get("k").sym();
  if (HasLibrary(d)) {
    return WithSizes(d, CallOrder(e, x, dim, k, 0, d.Bool("largest"),
                                  d.Bool("sorted") ? "top" : "top_unsorted"));
  }
  return WithSizes(d, First(e, x, dim, k, d.Bool("largest")));
}

Parts KthValue(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = AsRow(e, d.Tensor("self"));
  const int64_t dim = d.Dim("dim", e.rank(x));
  const SymExpr k = d.Get("k").sym();
  if (HasLibrary(d))
    return WithSizes(d, CallOrder(e, x, dim, 1, k - 1, false, "kth"));
  return WithSizes(d, LastOf(e, x, dim, k));
}

// The lower of two in the middle. A row with NaN gives its first NaN, which
// stands behind all numbers; or NaN is left out of the count.
Ordered Median(Decomposition& d, ValueId x, int64_t dim, bool ignore_nan) {
  Emitter& e = d.e;
  if (HasLibrary(d)) {
    return CallOrder(e, x, dim, 1, 0, false,
                     ignore_nan ? "nanmedian" : "median");
  }
  const SymExpr size = e.meta(x).sizes[dim];
  const SymExpr half = FloorDiv(size + 1, 2);
  if (!IsFloat(e.dtype(x))) return LastOf(e, x, dim, half);
  const ValueId numbers = e.Sum(e.Eq(x, x), {dim}, Keep::kYes);
  if (!ignore_nan) {
    const ValueId middle = e.Full({}, half - 1, DType::kInt64);
    return At(e, x, dim, size, e.Where(e.Lt(numbers, size), numbers, middle));
  }
  static const OpDef& kDivide = KnownOp("aten.div.Scalar_mode");
  const ValueId last = e.Call("aten.clamp_min.default", {e.Sub(numbers, 1), 0});
  return At(e, x, dim, half, e.Call(kDivide, {last, 2, std::string("floor")}));
}

template <bool ignore_nan>
Parts MedianDim(Decomposition& d) {
  const ValueId x = AsRow(d.e, d.Tensor("self"));
  return WithSizes(d, Median(d, x, d.Dim("dim", d.e.rank(x)), ignore_nan));
}

template <bool ignore_nan>
Parts MedianOfAll(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const ValueId row = e.Reshape(x, {e.meta(x).numel()});
  return {e.View(Median(d, row, 0, ignore_nan).values, {})};
}

// The value of the longest run once a row is in order, the least of several, and
// the last place where it stood.
Parts Mode(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = AsRow(e, d.Tensor("self"));
  const int64_t dim = d.Dim("dim", e.rank(x));
  const SymExpr size = e.meta(x).sizes[dim];
  const Ordered sorted = HasLibrary(d)
                             ? CallOrder(e, x, dim, size, 0, false, "sort")
                             : First(e, x, dim, size, false);
  const ValueId before =
      e.Call("aten.cat.default",
             {Argument::List{e.Slice(sorted.values, dim, 0, 1, 1),
                             e.Slice(sorted.values, dim, 0, size - 1, 1)},
              dim});
  DimVector along(e.rank(x), 1);
  along[dim] = size;
  const ValueId here = e.View(e.Iota(size, DType::kInt64), along);
  const ValueId begins =
      e.Where(e.Ne(sorted.values, before), here, e.Full({}, 0, DType::kInt64));
  const ValueId length =
      e.Sub(here, e.Call("aten.cummax.default", {begins, dim}));
  const ValueId longest = e.Call("aten.argmax.default", {length, dim, true});
  return WithSizes(d, {e.Gather(sorted.values, dim, longest),
                       e.Gather(sorted.places, dim, longest)});
}

// How many of `sorted` (along its last dim) come before each of `values`; with
// `right` also those that are equal. NaN comes last.
ValueId CountBefore(Emitter& e, ValueId sorted, ValueId values, bool right) {
  const int rank = e.rank(values);
  const ValueId value = e.Unsqueeze(Comparable(e, values), rank);
  ValueId bound = Comparable(e, sorted);
  if (e.rank(bound) > 1) bound = e.Unsqueeze(bound, e.rank(bound) - 1);
  const ValueId after = right ? e.Gt(bound, value) : e.Ge(bound, value);
  return e.Sum(e.Not(after), {rank}, Keep::kNo);
}

// A number becomes a 0-d tensor that the sequence's dtype can hold.
ValueId SearchedFor(Decomposition& d, absl::string_view name, ValueId like) {
  const Argument& sought = d.Get(name);
  if (sought.is_value()) return sought.value();
  const bool floating = std::get_if<double>(&sought.v) != nullptr;
  const DType dtype = d.e.dtype(like);
  return d.e.Full({}, sought,
                  floating && !IsFloat(dtype) ? DType::kFloat32 : dtype);
}

Parts SearchSorted(Decomposition& d) {
  Emitter& e = d.e;
  ValueId sorted = d.Tensor("sorted_sequence");
  const ValueId values = SearchedFor(d, "self", sorted);
  if (d.Has("sorter")) {
    sorted = e.Gather(sorted, e.rank(sorted) - 1, d.Tensor("sorter"));
  }
  const bool right = d.Bool("right") || d.String("side") == "right";
  return {CountBefore(e, sorted, values, right)};
}

Parts Bucketize(Decomposition& d) {
  const ValueId bounds = d.Tensor("boundaries");
  return {CountBefore(d.e, bounds, SearchedFor(d, "self", bounds),
                      d.Bool("right"))};
}

constexpr DecomposeRow kRows[] = {
    {"aten.sort.default", Sort},
    {"aten.sort.stable", Sort},
    {"aten.topk.default", Topk},
    {"aten.kthvalue.default", KthValue},
    {"aten.mode.default", Mode},
    {"aten.median.default", MedianOfAll<false>},
    {"aten.median.dim", MedianDim<false>},
    {"aten.nanmedian.default", MedianOfAll<true>},
    {"aten.nanmedian.dim", MedianDim<true>},
    {"aten.searchsorted.Tensor", SearchSorted},
    {"aten.searchsorted.Scalar", SearchSorted},
    {"aten.bucketize.Tensor", Bucketize},
    {"aten.bucketize.Scalar", Bucketize},
};

}  // namespace

Ordered InOrder(Emitter& e, ValueId x, int64_t dim) {
  return First(e, x, dim, e.meta(x).sizes[dim], false);
}

absl::Span<const DecomposeRow> OrderDecompositions() { return kRows; }

}  // namespace kiln

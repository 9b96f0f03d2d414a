// On the CPU sorting is a library call, row by row. On CUDA a kernel sorts rows
// that fit its shared memory, or finds the first of longer ones
// (prims.sort_rows). For 64-bit values and other long rows the place of an element
// is the number of elements that come before it: n * n comparisons.

#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph/sort_limits.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// 0, 1, ... along `dim` of a tensor of `rank`, other dims being 1.
ValueId PlacesAlong(Emitter& e, const SymExpr& size, int64_t dim, int rank) {
  DimVector sizes(rank, 1);
  sizes[dim] = size;
  return e.View(e.Iota(size, DType::kInt64), sizes);
}

// What is compared: booleans as integers.
ValueId Comparable(Emitter& e, ValueId x) {
  return e.dtype(x) == DType::kBool ? e.ToDType(x, DType::kInt32) : x;
}

ValueId Or(Emitter& e, ValueId a, ValueId b) {
  return e.Call("aten.logical_or.default", {a, b});
}

// How many elements of its row come before each element: NaN is the largest,
// equals keep their order. An i64 of x's sizes.
ValueId PlaceOf(Emitter& e, ValueId x, int64_t dim, bool descending) {
  const SymExpr size = e.meta(x).sizes[dim];
  const int rank = e.rank(x);
  const bool floating = IsFloat(e.dtype(x));
  const ValueId key = Comparable(e, x);
  const ValueId mine = e.Unsqueeze(key, dim + 1);
  const ValueId other = e.Unsqueeze(key, dim);
  ValueId before = descending ? e.Gt(other, mine) : e.Lt(other, mine);
  ValueId equal = e.Eq(other, mine);
  if (floating) {
    const ValueId my_nan = e.Ne(mine, mine), its_nan = e.Ne(other, other);
    before = Or(e, before,
                descending ? e.And(its_nan, e.Not(my_nan))
                           : e.And(e.Not(its_nan), my_nan));
    equal = Or(e, equal, e.And(its_nan, my_nan));
  }
  const ValueId earlier = e.Lt(PlacesAlong(e, size, dim + 1, rank + 1),
                               PlacesAlong(e, size, dim, rank + 1));
  return e.Sum(Or(e, before, e.And(equal, earlier)), {dim + 1}, Keep::kNo);
}

ValueId Gather(Emitter& e, ValueId x, int64_t dim, ValueId places) {
  static const OpDef& kGather = KnownOp("aten.gather.default");
  return e.Call(kGather, {x, dim, places, false});
}

struct Ordered {
  ValueId values, places;
};

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

// What a kernel sorts: keys of 32 bits, rows in shared memory; of longer rows the
// first places.
bool MaySortRows(Emitter& e, ValueId x, int64_t dim, const SymExpr& count) {
  const SymExpr& size = e.meta(x).sizes[dim];
  return SizeInBytes(e.dtype(x)) <= 4 &&
         (e.graph().shapes.Range(size).max <= kMostSorted ||
          (count.is_constant() && count.constant() > 0 &&
           count.constant() <= kMostPlaces));
}

// The first `count` of each row in order.
Ordered SortRows(Emitter& e, ValueId x, int64_t dim, SymExpr count,
                 bool descending) {
  static const OpDef& kSortRows = KnownOp("prims.sort_rows.default");
  const RowsAlong rows(e, x, dim);
  const ValueId places = e.Call(kSortRows, {rows.matrix(), count, descending});
  const ValueId where = rows.Back(places, count);
  return {Gather(e, x, dim, where), where};
}

Ordered Order(Emitter& e, ValueId x, int64_t dim, bool descending) {
  const SymExpr count = e.meta(x).sizes[dim];
  if (MaySortRows(e, x, dim, count))
    return SortRows(e, x, dim, count, descending);
  static const OpDef& kScatter = KnownOp("aten.scatter.src");
  const DimVector sizes = e.meta(x).sizes;
  const ValueId origin =
      e.Expand(PlacesAlong(e, sizes[dim], dim, e.rank(x)), sizes);
  const ValueId places =
      e.Call(kScatter, {e.Full(sizes, 0, DType::kInt64), dim,
                        PlaceOf(e, x, dim, descending), origin});
  return {Gather(e, x, dim, places), places};
}

// The element that stands at `place` when each row is ascending; size 1 stays.
Ordered At(Emitter& e, ValueId x, int64_t dim, Operand place) {
  const ValueId hit = e.Eq(PlaceOf(e, x, dim, false), std::move(place));
  const ValueId here = PlacesAlong(e, e.meta(x).sizes[dim], dim, e.rank(x));
  const ValueId none = e.Full({}, 0, DType::kInt64);
  const ValueId places = e.Sum(e.Where(hit, here, none), {dim}, Keep::kYes);
  return {Gather(e, x, dim, places), places};
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
  return WithSizes(d, Order(d.e, x, dim, descending));
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
  if (MaySortRows(e, x, dim, k)) {
    return WithSizes(d, SortRows(e, x, dim, k, d.Bool("largest")));
  }
  const Ordered all = Order(e, x, dim, d.Bool("largest"));
  return WithSizes(d, {e.Slice(all.values, dim, 0, k, 1),
                       e.Slice(all.places, dim, 0, k, 1)});
}

Parts KthValue(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = AsRow(e, d.Tensor("self"));
  const int64_t dim = d.Dim("dim", e.rank(x));
  const SymExpr place = d.Get("k").sym() - 1;
  if (HasLibrary(d))
    return WithSizes(d, CallOrder(e, x, dim, 1, place, false, "kth"));
  return WithSizes(d, At(e, x, dim, place));
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
  if (!IsFloat(e.dtype(x))) return At(e, x, dim, FloorDiv(size - 1, 2));
  const ValueId numbers = e.Sum(e.Eq(x, x), {dim}, Keep::kYes);
  if (!ignore_nan) {
    const ValueId middle = e.Full({}, FloorDiv(size - 1, 2), DType::kInt64);
    return At(e, x, dim, e.Where(e.Lt(numbers, size), numbers, middle));
  }
  static const OpDef& kDivide = KnownOp("aten.div.Scalar_mode");
  const ValueId last = e.Call("aten.clamp_min.default", {e.Sub(numbers, 1), 0});
  return At(e, x, dim, e.Call(kDivide, {last, 2, std::string("floor")}));
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

// log(sum over j <= i of exp(x[j] - top)) + top, with the running maximum.
Parts LogCumSumExp(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = AsRow(e, d.Compute("self"));
  const int rank = e.rank(x);
  const int64_t dim = d.Dim("dim", rank);
  const SymExpr size = e.meta(x).sizes[dim];
  const ValueId top = e.Call("aten.cummax.default", {x, dim});
  // An infinite top is not subtracted: infinity less itself is no number.
  const ValueId finite = e.Where(e.Call("aten.isinf.default", {top}), 0.0, top);
  const ValueId reached = e.Le(PlacesAlong(e, size, dim + 1, rank + 1),
                               PlacesAlong(e, size, dim, rank + 1));
  const ValueId terms =
      e.Exp(e.Sub(e.Unsqueeze(x, dim), e.Unsqueeze(finite, dim + 1)));
  const ValueId sum = e.Sum(e.Where(reached, terms, 0.0), {dim + 1}, Keep::kNo);
  return {e.Reshape(e.Add(e.Log(sum), finite), d.result(0).sizes)};
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
    sorted = Gather(e, sorted, e.rank(sorted) - 1, d.Tensor("sorter"));
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
    {"aten.median.default", MedianOfAll<false>},
    {"aten.median.dim", MedianDim<false>},
    {"aten.nanmedian.default", MedianOfAll<true>},
    {"aten.nanmedian.dim", MedianDim<true>},
    {"aten.logcumsumexp.default", LogCumSumExp},
    {"aten.searchsorted.Tensor", SearchSorted},
    {"aten.searchsorted.Scalar", SearchSorted},
    {"aten.bucketize.Tensor", Bucketize},
    {"aten.bucketize.Scalar", Bucketize},
};

}  // namespace

absl::Span<const DecomposeRow> OrderDecompositions() { return kRows; }

}  // namespace kiln

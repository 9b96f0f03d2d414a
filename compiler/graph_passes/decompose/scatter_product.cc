// Products of floats scattered in a fixed order, for the option `deterministic`.
//
// Updates are sorted by the element they are meant for, and equals keep their
// order. Then each place of the sorted row takes up the products of the places 1,
// 2, 4, ... before it as long as these are meant for the same element, so that the
// last of an element has the product of all: as many passes as the count of updates
// has bits, instead of one comparison for each element and update.

#include <cstdint>
#include <limits>

#include "compiler/config/compile_options.h"
#include "compiler/graph_passes/decompose/decomposition.h"
#include "compiler/graph_passes/decompose/ordered.h"

namespace kiln {
namespace {

// `x` without what lies beyond `sizes`.
ValueId Within(Emitter& e, ValueId x, const DimVector& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (e.meta(x).sizes[d] == sizes[d]) continue;
    x = e.Slice(x, static_cast<int64_t>(d), 0, sizes[d], 1);
  }
  return x;
}

// `x` with its first elements replaced by those of `part`.
ValueId WithFirst(Emitter& e, ValueId x, ValueId part) {
  for (size_t d = 0; d < e.meta(x).sizes.size(); ++d) {
    const DimVector due = e.meta(x).sizes;
    DimVector now = e.meta(part).sizes;
    if (now[d] == due[d]) continue;
    const SymExpr count = now[d];
    now[d] = due[d];
    part =
        e.Call("aten.slice_scatter.default",
               {Within(e, x, now), part, static_cast<int64_t>(d), 0, count, 1});
  }
  return part;
}

// The updates of one scatter, `count` along `dim`.
class Products {
 public:
  Products(Emitter& e, int64_t dim, SymExpr size, SymExpr count, bool listed)
      : e_(e), dim_(dim), size_(size), count_(count), listed_(listed) {}

  // The product of what is meant for each element. Where there is nothing, any.
  ValueId Of(ValueId index, ValueId source, ValueId counts) {
    const Ordered sorted = InOrder(e_, NarrowIndex(index), IndexDimension());
    ValueId products = listed_ ? e_.IndexDim(source, dim_, sorted.places)
                               : e_.Gather(source, dim_, sorted.places);
    const ValueId meant = InRank(sorted.values, products);
    const ValueId here = InRank(e_.Iota(count_, DType::kInt64), products);
    const int64_t steps = StepBound();
    for (int64_t step = 1; step < steps; step *= 2) {
      const ValueId from =
          e_.Call("aten.clamp_min.default",
                  {e_.Sub(e_.Iota(count_, DType::kInt64), step), 0});
      const ValueId same = e_.And(e_.Eq(meant, e_.IndexDim(meant, dim_, from)),
                                  e_.Ge(here, step));
      products = e_.Where(
          same, e_.Mul(e_.IndexDim(products, dim_, from), products), products);
    }
    const ValueId ends = e_.Call("aten.cumsum.default",
                                 {counts, IndexDimension(), NoneArgument{}});
    const ValueId last =
        e_.Call("aten.clamp_min.default", {e_.Sub(ends, 1), 0});
    return listed_ ? e_.IndexDim(products, dim_, last)
                   : e_.Gather(products, dim_, last);
  }

 private:
  int64_t IndexDimension() const { return listed_ ? 0 : dim_; }

  // Sorting goes by the digits that there are.
  ValueId NarrowIndex(ValueId index) {
    const bool fits = e_.graph().shapes.Range(size_).max <=
                      std::numeric_limits<int32_t>::max();
    return fits ? e_.ToDType(index, DType::kInt32) : index;
  }

  // A list along `dim` so that it broadcasts; other tensors have the rank.
  ValueId InRank(ValueId v, ValueId like) {
    const int rank = e_.rank(like);
    if (e_.rank(v) == rank && !listed_) return v;
    DimVector sizes(rank, 1);
    sizes[dim_] = count_;
    return e_.View(v, sizes);
  }

  // A power of two that is at least the count. Of a symbolic one it is so by a
  // guard.
  int64_t StepBound() {
    ShapeEnv& shapes = e_.graph().shapes;
    int64_t bound = 1;
    while (bound < shapes.Hint(count_)) bound *= 2;
    shapes.DecideLe(count_, bound, "scatter of products");
    return bound;
  }

  Emitter& e_;
  const int64_t dim_;
  const SymExpr size_, count_;
  const bool listed_;
};

ValueId AsRow(Emitter& e, ValueId x) {
  return e.rank(x) == 0 ? e.View(x, {1}) : x;
}

// How many updates each element has, or each place of a list.
ValueId CountUpdates(Emitter& e, const DimVector& sizes, int64_t dim,
                     ValueId index) {
  return e.Call("aten.scatter_add.default",
                {e.Full(sizes, 0, DType::kInt32), dim, index,
                 e.Full(e.meta(index).sizes, 1, DType::kInt32)});
}

Parts Scatter(Decomposition& d, ValueId source, bool listed) {
  Emitter& e = d.e;
  const ValueId self = AsRow(e, d.Compute("self"));
  const ValueId index = AsRow(e, d.Tensor("index"));
  source = AsRow(e, e.Compute(source));
  const int rank = e.rank(self);
  const int64_t dim = d.Dim("dim", rank);
  const DimVector sizes = e.meta(self).sizes;
  const SymExpr count = e.meta(index).sizes[listed ? 0 : dim];
  if (!e.graph().shapes.DecideLe(1, count, "scatter of products"))
    return {d.Tensor("self")};

  DimVector reached = listed ? sizes : e.meta(index).sizes;
  if (!listed) source = Within(e, source, reached);
  reached[dim] = sizes[dim];
  const DimVector counted = listed ? DimVector{sizes[dim]} : reached;
  ValueId counts = CountUpdates(e, counted, listed ? 0 : dim, index);
  Products products(e, dim, sizes[dim], count, listed);
  ValueId value = products.Of(index, source, counts);
  const ValueId old = Within(e, self, reached);
  if (listed) {
    DimVector along(rank, 1);
    along[dim] = sizes[dim];
    counts = e.View(counts, along);
  }
  if (d.Bool("include_self")) value = e.Mul(old, value);
  value = WithFirst(e, self, e.Where(e.Gt(counts, 0), value, old));
  return {e.View(value, d.result(0).sizes)};
}

Parts ScatterReduce(Decomposition& d) {
  return Scatter(d, d.Tensor("src"), /*listed=*/false);
}
Parts IndexReduce(Decomposition& d) {
  return Scatter(d, d.Tensor("source"), /*listed=*/true);
}

// On CUDA, where the hardware orders updates that meet.
bool HasOrder(const Node& node, const TensorMeta& result, const PassEnv& env) {
  const auto* reduce = std::get_if<std::string>(&node.args[4].v);
  return env.options.artifact.deterministic &&
         env.target.kind == TargetKind::kCuda && IsFloat(result.dtype) &&
         reduce != nullptr && *reduce == "prod";
}

constexpr DecomposeRow kRows[] = {
    {"aten.scatter_reduce.two", ScatterReduce, HasOrder},
    {"aten.index_reduce.default", IndexReduce, HasOrder},
};

}  // namespace

absl::Span<const DecomposeRow> ScatterProductDecompositions() { return kRows; }

}  // namespace kiln

// Embeddings in bags: each index finds its bag, then rows are summed into
// their bags.

#include <cmath>
#include <utility>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;
constexpr int64_t kMean = 1;
constexpr int64_t kMax = 2;

// What is known of the bags of one call.
struct Bags {
  ValueId indices;  // [N], i64
  ValueId bag;      // [N], the bag of each index
  ValueId counts;   // [N], whether an index is not the padding
  SymExpr num_indices, num_bags;
};

Bags BagsOf(Decomposition& d, const SymExpr& num_bags) {
  Emitter& e = d.e;
  Bags bags;
  bags.indices = e.ToDType(d.Tensor("indices"), DType::kInt64);
  bags.num_indices = e.meta(bags.indices).sizes[0];
  bags.num_bags = num_bags;
  // The last bag that begins at or before an index is its own.
  const ValueId starts =
      e.ToDType(e.Slice(d.Tensor("offsets"), 0, 0, num_bags, 1), DType::kInt64);
  const ValueId place = e.Unsqueeze(e.Iota(bags.num_indices, DType::kInt64), 1);
  bags.bag = e.Sub(e.Sum(e.Le(starts, place), {1}, Keep::kNo), 1);
  bags.counts = e.Ne(bags.indices, d.Get("padding_idx"));
  return bags;
}

ValueId PickRows(Emitter& e, ValueId table, ValueId rows) {
  return e.Call("aten.index.Tensor", {table, Argument::List{rows}});
}

// Zeros of `sizes` with `values` added at `rows` of the first dim.
ValueId AddedAtRows(Emitter& e, const DimVector& sizes, ValueId rows,
                    ValueId values) {
  return e.Call("aten.index_put.default", {e.Full(sizes, 0.0, e.dtype(values)),
                                           Argument::List{rows}, values, true});
}

// How many indices each bag counts, as i64.
ValueId SizesOfBags(Emitter& e, const Bags& bags) {
  const ValueId mine =
      e.Eq(bags.bag, e.Unsqueeze(e.Iota(bags.num_bags, DType::kInt64), 1));
  return e.Sum(e.And(mine, bags.counts), {1}, Keep::kNo);
}

// The largest of each column over each bag, and which row it is of; empty bags
// give zeros.
struct Largest {
  ValueId values, rows;
};
Largest LargestOfBags(Emitter& e, const Bags& bags, ValueId picked,
                      ValueId sizes) {
  static const OpDef& kMaxDim = KnownOp("aten.max.dim");
  const ValueId number = e.Unsqueeze(e.Iota(bags.num_bags, DType::kInt64), 1);
  const ValueId mine = e.And(e.Eq(bags.bag, number), bags.counts);
  const ValueId candidates = e.Where(e.Unsqueeze(mine, 2), picked, -INFINITY);
  const auto top = e.CallAll(kMaxDim, {candidates, 1, false});
  if (!e.status().ok()) return {picked, picked};
  const ValueId full = e.Unsqueeze(e.Gt(sizes, 0), 1);
  const ValueId none = e.Full({}, 0, DType::kInt64);
  return {e.Where(full, top[0], 0.0),
          e.Where(full, PickRows(e, bags.indices, top[1]), none)};
}

// As many zeros as the i-th result has elements.
ValueId ZerosOf(Decomposition& d, size_t i) {
  return d.e.Full(d.result(i).sizes, 0, DType::kInt64);
}

Parts EmbeddingBag(Decomposition& d) {
  Emitter& e = d.e;
  const int64_t mode = d.Int("mode");
  const Bags bags = BagsOf(d, d.result(0).sizes[0]);
  const ValueId bag_of_each =
      d.result(1).sizes[0].Is(0) && !bags.num_indices.Is(0) ? ZerosOf(d, 1)
                                                            : bags.bag;
  ValueId picked = PickRows(e, d.Compute("weight"), bags.indices);
  if (mode == kMax) {
    const ValueId sizes = SizesOfBags(e, bags);
    const Largest top = LargestOfBags(e, bags, picked, sizes);
    return {top.values, bag_of_each, sizes, top.rows};
  }
  if (d.Has("per_sample_weights")) {
    picked = e.Mul(picked, e.Unsqueeze(d.Compute("per_sample_weights"), 1));
  }
  picked = e.Where(e.Unsqueeze(bags.counts, 1), picked, 0.0);
  ValueId sum = AddedAtRows(e, d.result(0).sizes, bags.bag, picked);
  // Eager mode on the CPU does not count when nobody divides.
  if (mode != kMean) return {sum, bag_of_each, ZerosOf(d, 2), ZerosOf(d, 3)};
  const ValueId sizes = SizesOfBags(e, bags);
  const ValueId divisor = e.Call("aten.clamp_min.default", {sizes, 1});
  sum = e.Div(sum, e.Unsqueeze(e.ToDType(divisor, e.dtype(sum)), 1));
  return {sum, bag_of_each, sizes, sizes};
}

// The gradient of the rows, from that of their bags.
Parts EmbeddingBagBackward(Decomposition& d) {
  Emitter& e = d.e;
  const int64_t mode = d.Int("mode");
  const DimVector sizes = d.result(0).sizes;
  ValueId grad = d.Compute("grad");
  if (mode == kMax) {
    const ValueId full = e.Unsqueeze(e.Gt(d.Tensor("bag_size"), 0), 1);
    return {e.Call("aten.scatter_add.default",
                   {e.Full(sizes, 0.0, e.dtype(grad)), 0,
                    e.ToDType(d.Tensor("maximum_indices"), DType::kInt64),
                    e.Where(full, grad, 0.0)})};
  }
  const Bags bags = BagsOf(d, e.meta(grad).sizes[0]);
  if (mode == kMean) {
    const ValueId count = e.ToDType(SizesOfBags(e, bags), e.dtype(grad));
    grad = e.Div(grad, e.Unsqueeze(e.ClampMin(count, 1.0), 1));
  }
  ValueId share = PickRows(e, grad, bags.bag);
  if (d.Has("per_sample_weights")) {
    share = e.Mul(share, e.Unsqueeze(d.Compute("per_sample_weights"), 1));
  }
  if (d.Bool("scale_grad_by_freq")) {
    const ValueId ones = e.Full({bags.num_indices}, 1.0, e.dtype(grad));
    const ValueId uses = AddedAtRows(e, {sizes[0]}, bags.indices, ones);
    share = e.Div(share, e.Unsqueeze(PickRows(e, uses, bags.indices), 1));
  }
  share = e.Where(e.Unsqueeze(bags.counts, 1), share, 0.0);
  return {AddedAtRows(e, sizes, bags.indices, share)};
}

Parts PerSampleWeightsBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId grad = d.Compute("grad");
  const Bags bags = BagsOf(d, e.meta(grad).sizes[0]);
  const ValueId product = e.Mul(PickRows(e, grad, bags.bag),
                                PickRows(e, d.Compute("weight"), bags.indices));
  return {e.Where(bags.counts, e.Sum(product, {1}, Keep::kNo), 0.0)};
}

constexpr DecomposeRow kRows[] = {
    {"aten._embedding_bag.default", EmbeddingBag},
    {"aten._embedding_bag_forward_only.default", EmbeddingBag},
    {"aten._embedding_bag_backward.default", EmbeddingBagBackward},
    {"aten._embedding_bag_per_sample_weights_backward.default",
     PerSampleWeightsBackward},
};

}  // namespace

absl::Span<const DecomposeRow> EmbeddingDecompositions() { return kRows; }

}  // namespace kiln

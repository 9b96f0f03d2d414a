// Rows picked from a table, bags of them, and dropout's masks.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

RefResults Embedding(RefCall& call) {
  const Elements table = call.Load("weight"), rows = call.Load("indices");
  const int64_t width = table.sizes[1];
  Elements y = Elements::Floats(call.result(0).sizes);
  for (int64_t r = 0; r < rows.count(); ++r) {
    if (rows.I(r) < 0 || rows.I(r) >= table.sizes[0]) {
      call.Fail("an index is out of range");
      break;
    }
    for (int64_t c = 0; c < width; ++c) {
      y.f[r * width + c] = table.F(rows.I(r) * width + c);
    }
  }
  return {call.Make(0, y)};
}

RefResults EmbeddingDenseBackward(RefCall& call) {
  const Elements g = call.Load("grad_output"), rows = call.Load("indices");
  const int64_t padding = call.Int("padding_idx");
  Elements grad = Elements::Floats(call.result(0).sizes);
  const int64_t width = grad.sizes[1];
  std::map<int64_t, int64_t> uses;
  for (int64_t r = 0; r < rows.count(); ++r) ++uses[rows.I(r)];
  for (int64_t r = 0; r < rows.count(); ++r) {
    if (rows.I(r) == padding) continue;
    const double share = call.Bool("scale_grad_by_freq")
                             ? static_cast<double>(uses[rows.I(r)])
                             : 1.0;
    for (int64_t c = 0; c < width; ++c) {
      grad.f[rows.I(r) * width + c] += g.F(r * width + c) / share;
    }
  }
  return {call.Make(0, grad)};
}

// Element k stays where the k-th uniform number of this operator's stream is
// not below p, and is scaled by 1 / (1 - p).
RefResults NativeDropout(RefCall& call) {
  Elements x = call.Load("input").AsFloats();
  const float p = static_cast<float>(call.Float("p"));
  const bool train = !call.Has("train") || call.Bool("train");
  const bool drops = train && p > 0;
  Elements mask = Elements::Ints(x.sizes, drops ? 0 : 1);
  if (drops && p < 1) {
    const uint64_t stream = call.NextStream();
    for (int64_t k = 0; k < mask.count(); ++k) {
      mask.i[k] = PhiloxUniform(call.seed(), k, stream) >= p;
    }
  }
  const double scale = drops && p < 1 ? 1 / (1 - call.Float("p")) : 1;
  for (int64_t k = 0; k < x.count(); ++k) x.f[k] *= mask.B(k) ? scale : 0;
  return {call.Make(0, x), call.Make(1, mask)};
}

RefResults NativeDropoutBackward(RefCall& call) {
  Elements g = call.Load("grad_output").AsFloats();
  const Elements mask = call.Load("mask");
  const double scale = call.Float("scale");
  for (int64_t k = 0; k < g.count(); ++k) g.f[k] *= mask.B(k) ? scale : 0;
  return {call.Make(0, g)};
}

// Bags: stretches of a list of indices. bag[i]: that of index i.
struct Bags {
  Elements indices;
  std::vector<int64_t> bag;
  std::vector<bool> counts;    // an index that is not the padding
  std::vector<int64_t> sizes;  // of each bag, the padding left out
};

Bags BagsOf(RefCall& call, int64_t num_bags) {
  Bags bags;
  bags.indices = call.Load("indices");
  const Elements offsets = call.Load("offsets");
  const int64_t padding = call.Int("padding_idx");
  bags.sizes.assign(num_bags, 0);
  int64_t bag = -1;
  for (int64_t k = 0; k < bags.indices.count(); ++k) {
    while (bag + 1 < num_bags && offsets.I(bag + 1) <= k) ++bag;
    bags.bag.push_back(bag);
    bags.counts.push_back(bags.indices.I(k) != padding);
    bags.sizes[bag] += bags.counts.back();
  }
  return bags;
}

constexpr int64_t kMean = 1;
constexpr int64_t kMax = 2;

Elements IntsOfResult(RefCall& call, int i, const std::vector<int64_t>& from) {
  Elements y = Elements::Ints(call.result(i).sizes);
  if (y.count() == static_cast<int64_t>(from.size())) y.i = from;
  return y;
}

RefResults EmbeddingBag(RefCall& call) {
  const Elements table = call.Load("weight");
  const int64_t mode = call.Int("mode"), width = table.sizes[1];
  Elements y = Elements::Floats(call.result(0).sizes);
  const Bags bags = BagsOf(call, y.sizes[0]);
  Elements share = Elements::Floats({bags.indices.count()}, 1);
  if (call.Has("per_sample_weights")) share = call.Load("per_sample_weights");
  Elements top = Elements::Ints(y.sizes);
  std::vector<bool> seen(y.count(), false);
  for (int64_t k = 0; k < bags.indices.count(); ++k) {
    for (int64_t c = 0; bags.counts[k] && c < width; ++c) {
      const double v = table.F(bags.indices.I(k) * width + c) * share.F(k);
      const int64_t to = bags.bag[k] * width + c;
      if (mode != kMax) {
        y.f[to] += v;
      } else if (!seen[to] || v > y.f[to]) {
        y.f[to] = v;
        top.i[to] = bags.indices.I(k);
        seen[to] = true;
      }
    }
  }
  for (int64_t k = 0; mode == kMean && k < y.count(); ++k) {
    y.f[k] /= static_cast<double>(std::max<int64_t>(bags.sizes[k / width], 1));
  }
  const std::vector<int64_t> none;
  const bool counted = mode == kMean || mode == kMax;
  const auto& sizes = counted ? bags.sizes : none;
  return {call.Make(0, y), call.Make(1, IntsOfResult(call, 1, bags.bag)),
          call.Make(2, IntsOfResult(call, 2, sizes)),
          call.Make(3, mode == kMax ? top : IntsOfResult(call, 3, sizes))};
}

RefResults EmbeddingBagBackward(RefCall& call) {
  const Elements g = call.Load("grad");
  const int64_t mode = call.Int("mode"), width = g.sizes[1];
  const Bags bags = BagsOf(call, g.sizes[0]);
  Elements grad = Elements::Floats(call.result(0).sizes);
  if (mode == kMax) {
    const Elements top = call.Load("maximum_indices");
    for (int64_t k = 0; k < g.count(); ++k) {
      if (bags.sizes[k / width] > 0) {
        grad.f[top.I(k) * width + k % width] += g.F(k);
      }
    }
    return {call.Make(0, grad)};
  }
  Elements share = Elements::Floats({bags.indices.count()}, 1);
  if (call.Has("per_sample_weights")) share = call.Load("per_sample_weights");
  std::map<int64_t, int64_t> uses;
  for (int64_t k = 0; k < bags.indices.count(); ++k) ++uses[bags.indices.I(k)];
  for (int64_t k = 0; k < bags.indices.count(); ++k) {
    double scale = share.F(k);
    if (mode == kMean) scale /= static_cast<double>(bags.sizes[bags.bag[k]]);
    const int64_t row = bags.indices.I(k);
    if (call.Bool("scale_grad_by_freq")) {
      scale /= static_cast<double>(uses[row]);
    }
    for (int64_t c = 0; bags.counts[k] && c < width; ++c) {
      grad.f[row * width + c] += g.F(bags.bag[k] * width + c) * scale;
    }
  }
  return {call.Make(0, grad)};
}

RefResults PerSampleWeightsBackward(RefCall& call) {
  const Elements g = call.Load("grad"), table = call.Load("weight");
  const Bags bags = BagsOf(call, g.sizes[0]);
  const int64_t width = g.sizes[1];
  Elements grad = Elements::Floats({bags.indices.count()});
  for (int64_t k = 0; k < grad.count(); ++k) {
    for (int64_t c = 0; bags.counts[k] && c < width; ++c) {
      grad.f[k] +=
          g.F(bags.bag[k] * width + c) * table.F(bags.indices.I(k) * width + c);
    }
  }
  return {call.Make(0, grad)};
}

constexpr ReferenceRow kRows[] = {
    {"aten._embedding_bag.default", EmbeddingBag},
    {"aten._embedding_bag_forward_only.default", EmbeddingBag},
    {"aten._embedding_bag_backward.default", EmbeddingBagBackward},
    {"aten._embedding_bag_per_sample_weights_backward.default",
     PerSampleWeightsBackward},
    {"aten.embedding.default", Embedding},
    {"aten.embedding_dense_backward.default", EmbeddingDenseBackward},
    {"aten.native_dropout.default", NativeDropout},
    {"aten.native_dropout_backward.default", NativeDropoutBackward},
};

}  // namespace

absl::Span<const ReferenceRow> EmbeddingReferences() { return kRows; }

}  // namespace kiln

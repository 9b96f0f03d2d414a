// Rows picked from a table, bags of them, and dropout's masks.

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

constexpr ReferenceRow kRows[] = {
    {"aten.embedding.default", Embedding},
    {"aten.embedding_dense_backward.default", EmbeddingDenseBackward},
    {"aten.native_dropout.default", NativeDropout},
    {"aten.native_dropout_backward.default", NativeDropoutBackward},
};

}  // namespace

absl::Span<const ReferenceRow> EmbeddingReferences() { return kRows; }

}  // namespace kiln

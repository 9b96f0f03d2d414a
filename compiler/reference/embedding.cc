// Rows picked from a table, bags of them, and dropout's masks.

#include <map>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"

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

// Whether element k is kept, by Philox4x32-10: see kRandom in scalar_expr.h.
// Only the rates that need no randomness are computed here.
RefResults NativeDropout(RefCall& call) {
  Elements x = call.Load("input");
  const double p = call.Float("p");
  const bool train = !call.Has("train") || call.Bool("train");
  Elements mask = Elements::Ints(x.sizes, !train || p == 0);
  if (train && p != 0 && p != 1) {
    call.Fail("a rate between 0 and 1 is random; use statistics instead");
  }
  if (train && p == 1) {
    for (double& v : x.f) v = 0;
  }
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

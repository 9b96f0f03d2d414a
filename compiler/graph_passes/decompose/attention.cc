// Scaled dot product attention in its mathematical form: two products and a
// softmax between, with the logarithm of each row's sum for the gradient. The
// products of half types are in f32 too, as the fused operators keep them.

#include <cmath>
#include <utility>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

using Keep = Emitter::Keep;

// [B * H, rows, columns] of x[B, H, rows, columns].
ValueId Heads(Emitter& e, ValueId x) {
  const DimVector& s = e.meta(x).sizes;
  return e.Reshape(x, {s[0] * s[1], s[2], s[3]});
}

ValueId Unheads(Emitter& e, ValueId x, const DimVector& like) {
  const DimVector& s = e.meta(x).sizes;
  return e.View(x, {like[0], like[1], s[1], s[2]});
}

// A mask of bools says what may be seen; one of floats is added.
ValueId Masked(Emitter& e, ValueId scores, ValueId mask) {
  if (e.dtype(mask) == DType::kBool) {
    return e.Where(mask, scores, -INFINITY);
  }
  return e.Add(scores, e.Compute(mask));
}

// Row i sees columns 0 to i.
ValueId Causal(Emitter& e, ValueId scores) {
  const DimVector& s = e.meta(scores).sizes;
  const SymExpr rows = s[2], columns = s[3];
  const ValueId row = e.Unsqueeze(e.Iota(rows, DType::kInt64), 1);
  const ValueId seen = e.Le(e.Iota(columns, DType::kInt64), row);
  return e.Where(seen, scores, -INFINITY);
}

// q k^T * scale with its masks, in f32: [B, H, L, S].
ValueId Scores(Decomposition& d, absl::string_view mask) {
  Emitter& e = d.e;
  const ValueId q = d.Compute("query"), k = d.Compute("key");
  const DimVector sizes = e.meta(q).sizes;
  const SymExpr width = sizes[3];
  const ValueId product = e.Bmm(Heads(e, q), e.Transpose(Heads(e, k), 1, 2));
  ValueId scores = e.Compute(Unheads(e, product, sizes));
  const double scale =
      d.Has("scale") ? d.Float("scale")
                     : 1 / std::sqrt(static_cast<double>(
                               width.is_constant() ? width.constant() : 1));
  scores = e.Mul(scores, scale);
  if (d.Has(mask)) scores = Masked(e, scores, d.Tensor(mask));
  if (d.Bool("is_causal")) scores = Causal(e, scores);
  return scores;
}

Parts FlashForCpu(Decomposition& d) {
  Emitter& e = d.e;
  if (d.Float("dropout_p") != 0) return d.Unsupported("dropout_p is not 0");
  const ValueId v = d.Compute("value");
  const DimVector sizes = e.meta(d.Tensor("query")).sizes;
  const ValueId scores = Scores(d, "attn_mask");
  const ValueId top = e.Amax(scores, {3}, Keep::kYes);
  const ValueId exp = e.Exp(e.Sub(scores, top));
  const ValueId sum = e.Sum(exp, {3}, Keep::kYes);
  const ValueId p = e.Div(exp, sum);
  const ValueId y = Unheads(e, e.Bmm(Heads(e, p), Heads(e, v)), sizes);
  const ValueId logsumexp = e.Add(top, e.Log(sum));
  return {y, e.Squeeze(logsumexp, {3})};
}

// P = exp(scores - logsumexp), dP = g v^T, dS = P * (dP - sum(g * out)).
Parts FlashForCpuBackward(Decomposition& d) {
  Emitter& e = d.e;
  if (d.Float("dropout_p") != 0) return d.Unsupported("dropout_p is not 0");
  const ValueId g = d.Compute("grad_out"), q = d.Compute("query");
  const DimVector sizes = e.meta(q).sizes;
  const double scale =
      d.Has("scale")
          ? d.Float("scale")
          : 1 / std::sqrt(static_cast<double>(
                    sizes[3].is_constant() ? sizes[3].constant() : 1));
  const ValueId lse = e.Unsqueeze(d.Compute("logsumexp"), 3);
  const ValueId p = e.Exp(e.Sub(Scores(d, "attn_mask"), lse));
  const ValueId delta = e.Sum(e.Mul(g, d.Compute("out")), {3}, Keep::kYes);
  const ValueId g3 = Heads(e, g), q3 = Heads(e, q);
  const ValueId k3 = Heads(e, d.Compute("key"));
  const ValueId v3 = Heads(e, d.Compute("value"));
  const ValueId dp = Unheads(e, e.Bmm(g3, e.Transpose(v3, 1, 2)), sizes);
  const ValueId ds = Heads(e, e.Mul(e.Mul(p, e.Sub(dp, delta)), scale));
  const ValueId p3 = Heads(e, p);
  return {Unheads(e, e.Bmm(ds, k3), sizes),
          Unheads(e, e.Bmm(e.Transpose(ds, 1, 2), q3), sizes),
          Unheads(e, e.Bmm(e.Transpose(p3, 1, 2), g3), sizes)};
}

constexpr DecomposeRow kRows[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashForCpuBackward},
};

}  // namespace

absl::Span<const DecomposeRow> AttentionDecompositions() { return kRows; }

}  // namespace kiln

// Scaled dot product attention as its definition has it, with the logarithm of
// each row's sum that the fused operators return, and the gradient from it.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

// q[B, H, L, E], k[B, X, S, E], v[B, X, S, V] and what is added to the scores;
// H / X heads share a key.
struct Attention {
  Elements q, k, v;
  Elements bias;  // [B, H, L, S]
  Elements kept;  // dropout: 0, or what a weight that stays is scaled by
  double scale;
  int64_t batches, rows, columns, width, value_width;
  int64_t sharing;  // heads of a key

  // The row of key and value `c` of head b.
  int64_t KeyRow(int64_t b, int64_t c) const {
    return b / sharing * columns + c;
  }

  double Score(int64_t b, int64_t r, int64_t c) const {
    double dot = 0;
    for (int64_t e = 0; e < width; ++e) {
      dot += q.F((b * rows + r) * width + e) * k.F(KeyRow(b, c) * width + e);
    }
    return dot * scale + bias.F((b * rows + r) * columns + c);
  }
};

// Columns that row m does not see: those beyond `shift` behind it.
void HideLater(Attention& a, int64_t shift) {
  int64_t k = 0;
  ForEachIndex(a.bias.sizes, [&](const Sizes& at) {
    if (at[3] > at[2] + shift) a.bias.f[k] = -INFINITY;
    ++k;
  });
}

// `mask`: the parameter's name; "" without one.
Attention AttentionOf(RefCall& call, absl::string_view mask) {
  Attention a;
  a.q = call.Load("query");
  a.k = call.Load("key");
  a.v = call.Load("value");
  a.rows = a.q.sizes[2];
  a.columns = a.k.sizes[2];
  a.width = a.q.sizes[3];
  a.value_width = a.v.sizes[3];
  a.batches = a.q.sizes[0] * a.q.sizes[1];
  a.sharing = a.k.sizes[1] == 0 ? 1 : a.q.sizes[1] / a.k.sizes[1];
  a.scale = call.Has("scale") ? call.Float("scale")
                              : 1 / std::sqrt(static_cast<double>(a.width));
  const Sizes scores = {a.q.sizes[0], a.q.sizes[1], a.rows, a.columns};
  a.bias = Elements::Floats(scores);
  if (call.Has(mask)) {
    Elements given = call.Load(mask);
    if (!given.floating) {  // true: may be seen
      given = given.AsFloats();
      for (double& v : given.f) v = v != 0 ? 0 : -INFINITY;
    }
    a.bias = given.Broadcast(scores);
  }
  a.kept = Elements::Floats(scores, 1);
  if (call.Has("is_causal") && call.Bool("is_causal")) HideLater(a, 0);
  return a;
}

struct Attended {
  Elements output, logsumexp;
};

Attended Attend(const Attention& a) {
  Sizes sizes = a.q.sizes;
  sizes[3] = a.value_width;
  Attended out = {Elements::Floats(sizes),
                  Elements::Floats({sizes[0], sizes[1], sizes[2]})};
  for (int64_t b = 0; b < a.batches; ++b) {
    for (int64_t r = 0; r < a.rows; ++r) {
      std::vector<double> p(a.columns);
      double top = -INFINITY, sum = 0;
      for (int64_t c = 0; c < a.columns; ++c) {
        p[c] = a.Score(b, r, c);
        top = std::fmax(top, p[c]);
      }
      // A row that sees nothing: weights of 0, a logsumexp of 0.
      const bool blind = top == -INFINITY;
      if (blind) top = 0;
      for (double& v : p) sum += v = std::exp(v - top);
      if (blind) sum = 1;
      out.logsumexp.f[b * a.rows + r] = top + std::log(sum);
      for (int64_t c = 0; c < a.columns; ++c) {
        for (int64_t e = 0; e < a.value_width; ++e) {
          out.output.f[(b * a.rows + r) * a.value_width + e] +=
              p[c] / sum * a.kept.F((b * a.rows + r) * a.columns + c) *
              a.v.F(a.KeyRow(b, c) * a.value_width + e);
        }
      }
    }
  }
  return out;
}

RefResults FlashForCpu(RefCall& call) {
  const Attended out = Attend(AttentionOf(call, "attn_mask"));
  return {call.Make(0, out.output), call.Make(1, out.logsumexp)};
}

struct AttentionGradients {
  Elements q, k, v;
};

// P = exp(score - logsumexp); dS = P * (dP - sum(grad * out)).
AttentionGradients GradientsOf(RefCall& call, const Attention& a) {
  const auto name = [&](absl::string_view given) { return call.Has(given); };
  const absl::string_view names[] = {"grad_out", "grad_out_", "grad"};
  const Elements g = call.Load(*std::find_if(names, names + 2, name)),
                 out = call.Load("out");
  const Elements lse = call.Load("logsumexp");
  // The efficient operator's has more rows than there are queries.
  const int64_t lse_rows = a.batches == 0 ? 0 : lse.count() / a.batches;
  AttentionGradients d = {Elements::Floats(a.q.sizes),
                          Elements::Floats(a.k.sizes),
                          Elements::Floats(a.v.sizes)};
  for (int64_t b = 0; b < a.batches; ++b) {
    for (int64_t r = 0; r < a.rows; ++r) {
      const int64_t row = (b * a.rows + r) * a.value_width;
      double delta = 0;
      for (int64_t e = 0; e < a.value_width; ++e) {
        delta += g.F(row + e) * out.F(row + e);
      }
      for (int64_t c = 0; c < a.columns; ++c) {
        const double p = std::exp(a.Score(b, r, c) - lse.F(b * lse_rows + r));
        const int64_t value = a.KeyRow(b, c) * a.value_width;
        double dp = 0;
        const double kept = a.kept.F((b * a.rows + r) * a.columns + c);
        for (int64_t e = 0; e < a.value_width; ++e) {
          dp += kept * g.F(row + e) * a.v.F(value + e);
          d.v.f[value + e] += kept * p * g.F(row + e);
        }
        const double ds = p * (dp - delta) * a.scale;
        for (int64_t e = 0; e < a.width; ++e) {
          const int64_t qe = (b * a.rows + r) * a.width + e;
          const int64_t ke = a.KeyRow(b, c) * a.width + e;
          d.q.f[qe] += ds * a.k.F(ke);
          d.k.f[ke] += ds * a.q.F(qe);
        }
      }
    }
  }
  return d;
}

RefResults FlashForCpuBackward(RefCall& call) {
  const AttentionGradients d =
      GradientsOf(call, AttentionOf(call, "attn_mask"));
  return {call.Make(0, d.q), call.Make(1, d.k), call.Make(2, d.v)};
}

// Who draws: a kernel of the whole attention, or what it is taken apart into, whose
// weight stays where the number of `seed` for it is not below dropout_p.
enum class Draws { kWhole, kParts };

void DrawKept(RefCall& call, Draws draws, uint64_t seed, Attention& a) {
  const double p = call.Float("dropout_p");
  if (p == 0) return;
  for (int64_t k = 0; k < a.kept.count(); ++k) {
    if (draws == Draws::kWhole) {
      const int64_t row = k / a.columns;
      a.kept.f[k] = KeptOfAttention(
          seed, {row / a.rows, row % a.rows, k % a.columns, a.width}, p);
    } else {
      const bool stays = PhiloxUniform(seed, k, 0) >= static_cast<float>(p);
      a.kept.f[k] = stays && p < 1 ? 1 / (1 - p) : 0;
    }
  }
}

// The random state that is returned is the seed of this call's dropout: 48
// bits of two numbers of the run's streams; without dropout it means nothing.
Elements DrawNew(RefCall& call, Draws draws, Attention& attention) {
  Elements seed = Elements::Ints({});
  for (int half = 0; call.Float("dropout_p") != 0 && half < 2; ++half) {
    const double drawn = PhiloxUniform(call.seed(), 0, call.NextStream());
    seed.i[0] = (seed.i[0] << 24) + static_cast<int64_t>(drawn * (1 << 24));
  }
  DrawKept(call, draws, static_cast<uint64_t>(seed.i[0]), attention);
  return seed;
}

// What the state in its first number drew.
void DrawAgain(RefCall& call, Draws draws, Attention& attention) {
  DrawKept(call, draws, static_cast<uint64_t>(call.Load("philox_seed").I(0)),
           attention);
}

RefResults Cudnn(RefCall& call) {
  Attention attention = AttentionOf(call, "attn_bias");
  const Elements seed = DrawNew(call, Draws::kParts, attention);
  Attended out = Attend(attention);
  out.logsumexp.sizes.push_back(1);
  RefResults results(call.num_results());
  results[0] = call.Make(0, out.output);
  results[1] = call.Make(1, out.logsumexp);
  results[6] = call.Make(6, seed);
  results[7] = call.Make(7, Elements::Ints({}));
  return results;
}

RefResults CudnnBackward(RefCall& call) {
  Attention attention = AttentionOf(call, "attn_bias");
  DrawAgain(call, Draws::kParts, attention);
  const AttentionGradients d = GradientsOf(call, attention);
  return {call.Make(0, d.q), call.Make(1, d.k), call.Make(2, d.v)};
}

// Columns that row m does not see: prims.attention's causal and window.
void Band(RefCall& call, Attention& a) {
  const std::string causal(call.String("causal"));
  const int64_t window = call.Int("window");
  const int64_t shift = causal == "bottom_right" ? a.columns - a.rows : 0;
  int64_t k = 0;
  ForEachIndex(a.bias.sizes, [&](const Sizes& at) {
    const int64_t past = at[3] - at[2] - shift;
    if ((!causal.empty() && past > 0) || (window > 0 && past <= -window))
      a.bias.f[k] = -INFINITY;
    ++k;
  });
}

// Dropout draws by its own numbers, alike in both directions.
Attention WholeAttention(RefCall& call) {
  Attention attention = AttentionOf(call, "bias");
  Band(call, attention);
  if (call.Has("seed"))
    DrawKept(call, Draws::kWhole, static_cast<uint64_t>(call.Load("seed").I(0)),
             attention);
  return attention;
}

RefResults Whole(RefCall& call) {
  const Attended out = Attend(WholeAttention(call));
  return {call.Make(0, out.output), call.Make(1, out.logsumexp)};
}

RefResults WholeBackward(RefCall& call) {
  const AttentionGradients d = GradientsOf(call, WholeAttention(call));
  return {call.Make(0, d.q), call.Make(1, d.k), call.Make(2, d.v)};
}

// Its causal mask ends with the last query and the last key.
Attention FlashAttentionOf(RefCall& call) {
  Attention a = AttentionOf(call, "");
  if (call.Bool("is_causal") && a.rows != a.columns) {
    a.bias = Elements::Floats(a.bias.sizes);
    HideLater(a, a.columns - a.rows);
  }
  return a;
}

RefResults Flash(RefCall& call) {
  Attention attention = FlashAttentionOf(call);
  Elements state = Elements::Ints({2});
  state.i[0] = DrawNew(call, Draws::kWhole, attention).i[0];
  const Attended out = Attend(attention);
  RefResults results(call.num_results());
  results[0] = call.Make(0, out.output);
  results[1] = call.Make(1, out.logsumexp);
  results[6] = call.Make(6, state);
  results[7] = call.Make(7, Elements::Ints({}));
  results[8] = call.Make(8, Elements::Floats({0}));
  return results;
}

RefResults FlashBackward(RefCall& call) {
  Attention attention = FlashAttentionOf(call);
  DrawAgain(call, Draws::kWhole, attention);
  const AttentionGradients d = GradientsOf(call, attention);
  return {call.Make(0, d.q), call.Make(1, d.k), call.Make(2, d.v)};
}

RefResults Efficient(RefCall& call) {
  Attention attention = AttentionOf(call, "attn_bias");
  const Elements seed = DrawNew(call, Draws::kWhole, attention);
  const Attended out = Attend(attention);
  // Rows that no query has are infinite.
  const Elements& found = out.logsumexp;
  Elements logsumexp = Elements::Floats(call.result(1).sizes, INFINITY);
  const int64_t due = logsumexp.sizes[2], rows = found.sizes[2];
  for (int64_t k = 0; due > 0 && k < found.count(); ++k)
    logsumexp.f[k / rows * due + k % rows] = found.f[k];
  return {call.Make(0, out.output), call.Make(1, logsumexp), call.Make(2, seed),
          call.Make(3, Elements::Ints({}))};
}

RefResults EfficientBackward(RefCall& call) {
  Attention attention = AttentionOf(call, "attn_bias");
  DrawAgain(call, Draws::kWhole, attention);
  const AttentionGradients d = GradientsOf(call, attention);
  RefResults results(call.num_results());
  results[0] = call.Make(0, d.q);
  results[1] = call.Make(1, d.k);
  results[2] = call.Make(2, d.v);
  return results;
}

constexpr ReferenceRow kRows[] = {
    {"prims.attention.default", Whole},
    {"prims.attention_backward.default", WholeBackward},
    {"aten._scaled_dot_product_cudnn_attention.default", Cudnn},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     CudnnBackward},
    {"aten._scaled_dot_product_flash_attention.default", Flash},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     FlashBackward},
    {"aten._scaled_dot_product_efficient_attention.default", Efficient},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     EfficientBackward},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashForCpuBackward},
};

}  // namespace

absl::Span<const ReferenceRow> AttentionReferences() { return kRows; }

}  // namespace kiln

// CUDA's prelude: attention (schedule/flash_kernel.h), its forward and what the
// gradients share with it.

#include "compiler/codegen/cuda_prelude_flash.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // What a kernel is given: attention.h has the words. Strides are in elements.
    {"k_flash", "", R"(template <class Options>
struct k_flash : Options {
  const unsigned short *query, *key, *value, *grad;
  unsigned short *out, *query_grad, *key_grad, *value_grad;
  float *logsumexp, *sums;
  const typename Options::bias_type* bias;
  long long query_batch, query_head, query_row, key_batch, key_head, key_row, value_batch, value_head, value_row;
  long long out_batch, out_head, out_row, grad_batch, grad_head, grad_row;
  long long query_grad_batch, query_grad_head, query_grad_row, key_grad_batch, key_grad_head, key_grad_row;
  long long value_grad_batch, value_grad_head, value_grad_row, bias_batch, bias_head, bias_row, bias_column;
  long long padded_queries, seed;
  int batches, heads, key_heads, queries, keys, shift;
  float scale, plain_scale, kept_scale;
  unsigned dropped;
};
)"},
    // Whether query m sees key n.
    {"k_flash_sees", "", R"(template <class F>
K_FN bool k_flash_sees(const F& f, int m, int n) {
  bool sees = n < f.keys;
  if constexpr (F::kCausal) sees = sees && n <= m + f.shift;
  if constexpr (F::kWindow > 0) sees = sees && n > m + f.shift - F::kWindow;
  return sees;
}
)"},
    // The first key that query m sees, and the one behind the last.
    {"k_flash_first_key", "", R"(template <class F>
K_FN int k_flash_first_key(const F& f, int m) {
  if constexpr (F::kWindow > 0) return k_maximum_i32(0, m + f.shift - F::kWindow + 1);
  return 0;
}
)"},
    {"k_flash_last_key", "", R"(template <class F>
K_FN int k_flash_last_key(const F& f, int m) {
  if constexpr (F::kCausal) return k_minimum_i32(f.keys, m + f.shift + 1);
  return f.keys;
}
)"},
    {"k_flash_bias", "", R"(template <class F>
K_FN float k_flash_bias(const F& f, long long at) {
  if constexpr (F::kBias == 32) {
    return f.bias[at];
  } else {
    return k_of_half<F::kBf16>(f.bias[at]);
  }
}
)"},
    // Scores in units of log(2), with kFolds but for the factor f.scale: with what is
    // added to them, -inf where a query does not see a key. kTransposed: rows are keys.
    {"k_flash_scores", "",
     R"(template <bool kTransposed, class F, int kTiles, int kGroups>
K_FN void k_flash_scores(const F& f, float (&s)[kTiles][kGroups][4], int row, int column, bool edge, long long bias_at) {
  if constexpr (!F::kFolds) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int j = 0; j < kGroups; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          s[t][j][i] *= f.scale;
          if constexpr (F::kBias != 0) {
            const int r = row + t * 16 + i / 2 * 8, c = column + j * 8 + i % 2;
            const int m = kTransposed ? c : r, n = kTransposed ? r : c;
            if (!edge || (m < f.queries && n < f.keys))
              s[t][j][i] = fmaf(k_flash_bias(f, bias_at + m * f.bias_row + n * f.bias_column), 1.4426950408889634f, s[t][j][i]);
          }
        }
  }
  if (edge) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int j = 0; j < kGroups; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = row + t * 16 + i / 2 * 8, c = column + j * 8 + i % 2;
          if (!(kTransposed ? k_flash_sees(f, c, r) : k_flash_sees(f, r, c))) s[t][j][i] = -k_inf_f32();
        }
  }
}
)"},
    // A weight, of its score and its row's logarithm. Of a large bias the logarithm is
    // rounded by more than 1: no weight is over 1 for that.
    {"k_flash_weight", "", R"(template <class F>
K_FN float k_flash_weight(const F& f, float score, float logsumexp) {
  float power = fmaf(score, F::kFolds ? f.scale : 1.0f, -logsumexp);
  if constexpr (F::kBias != 0) power = power > 0 ? 0 : power;
  return k_exp2(power);
}
)"},
    // Which weights dropout leaves. A draw, Philox4x32 in 7 rounds, has 16 bits for each
    // of eight: l, l + 8, l + 16, l + 24 along one axis by s, s + 8 along the other, in
    // blocks of 32 by 16. A thread has them all, whether rows are queries or keys. The
    // longer side of the block is along queries, but along keys for heads over 128, where
    // a warp has 16 queries.
    {"k_flash_draw", "",
     R"(K_FN void k_flash_draw(long long seed, unsigned head, unsigned l, unsigned s, unsigned (&c)[4]) {
  unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long long)seed >> 32);
  c[0] = s / 16 * 8 + s % 8;
  c[1] = l / 32 * 8 + l % 8;
  c[2] = head;
  c[3] = 1;
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const unsigned long long left = 0xD2511F53ull * c[0], right = 0xCD9E8D57ull * c[2];
    c[0] = (unsigned)(right >> 32) ^ c[1] ^ k0;
    c[1] = (unsigned)right;
    c[2] = (unsigned)(left >> 32) ^ c[3] ^ k1;
    c[3] = (unsigned)left;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
)"},
    // Calls visit(t, j, i, stays) for each weight of a thread. Where it has half of what
    // is drawn, 16 of 32 along the longer side, it takes the half that is its.
    {"k_flash_drop", "",
     R"(template <bool kTransposed, int kTiles, int kGroups, class F, class Visit>
K_FN void k_flash_drop(const F& f, int head, int row, int column, const Visit& visit) {
  enum { kAcross = kTransposed != (F::kWidth > 128) };
  enum { kRowTiles = kAcross || kTiles % 2 != 0 ? 1 : 2, kColumnGroups = kAcross && kGroups % 4 == 0 ? 4 : 2 };
  enum { kWords = kAcross ? kColumnGroups : 2 * kRowTiles };
#pragma unroll
  for (int t = 0; t < kTiles; t += kRowTiles)
#pragma unroll
    for (int j = 0; j < kGroups; j += kColumnGroups)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int r = row + t * 16, c = column + j * 8 + e, l = kAcross ? c : r;
        unsigned x[4];
        k_flash_draw(f.seed, head, l, kAcross ? r : c, x);
#pragma unroll
        for (int a = 0; a < kWords; ++a) {
          const unsigned word = kWords == 2 && (l & 16) != 0 ? x[a + 2] : x[a];
#pragma unroll
          for (int b = 0; b < 2; ++b) {
            const bool stays = (b == 0 ? word << 16 : word) >= f.dropped;
            if constexpr (kAcross) {
              visit(t, j + a, 2 * b + e, stays);
            } else {
              visit(t + a / 2, j + b, a % 2 * 2 + e, stays);
            }
          }
        }
      }
}
)"},
    // Which rows of which head a block takes. Causal, rows have unequal work: those with
    // most come first, of as many heads together as what they read stays in the cache.
    {"k_flash_block", "", R"(template <class F>
K_FN void k_flash_block(const F& f, int blocks, int heads, long long read, int& number, int& head) {
  if constexpr (F::kCausal) {
    const int cached = (int)((8 << 20) / (read * (F::kWidth + F::kValueWidth))), together = k_minimum_i32(k_maximum_i32(cached, 1), heads);
    const int group = blockIdx.x / (together * blocks), rest = blockIdx.x % (together * blocks);
    const int size = k_minimum_i32(together, heads - group * together);
    number = rest / size;
    head = group * together + rest % size;
  } else {
    number = blockIdx.x % blocks;
    head = blockIdx.x / blocks;
  }
}
)"},
    // Rows that a warp holds in registers are there from its first copies on.
    {"k_flash_await_held", "", R"(template <class F>
K_FN void k_flash_await_held() {
  if constexpr (F::kHeld) {
    k_copies_wait<0>();
    __syncthreads();
  }
}
)"},
    // A block computes the results of kRows queries.
    {"k_flash_forward", "", R"(template <class F>
K_FN void k_flash_forward(const F& f) {
  enum { kThreads = F::kWarps * 32, kRows = F::kWarps * F::kTiles * 16, kColumns = F::kColumns, kGroups = kColumns / 8 };
  using Q = k_head<F::kWidth>;
  using V = k_head<F::kValueWidth>;
  enum { kStage = kColumns * (Q::kBytes + V::kBytes) };
  extern __shared__ k_words<4> shared[];
  const unsigned query_at = (unsigned)__cvta_generic_to_shared(shared), keys_at = query_at + kRows * Q::kBytes;
  const int blocks = (f.queries + kRows - 1) / kRows;
  int number, head;
  k_flash_block(f, blocks, f.batches * f.heads, f.keys, number, head);
  const int first = (F::kCausal ? blocks - 1 - number : number) * kRows;
  const int h = head % f.heads, b = head / f.heads, x = h / (f.heads / f.key_heads);
  const unsigned short* const keys = f.key + (b * f.key_batch + x * f.key_head);
  const unsigned short* const values = f.value + (b * f.value_batch + x * f.value_head);
  const int last = k_minimum_i32(first + kRows, f.queries) - 1;
  const int n_first = k_flash_first_key(f, first) / kColumns * kColumns, n_last = k_flash_last_key(f, last);
  const auto copy = [&](int n, unsigned to) {
    k_copy_heads<kColumns, F::kWidth, kThreads>(to, keys + n * f.key_row, f.key_row, f.keys - n);
    k_copy_heads<kColumns, F::kValueWidth, kThreads>(to + kColumns * Q::kBytes, values + n * f.value_row, f.value_row, f.keys - n);
  };
  k_copy_heads<kRows, F::kWidth, kThreads>(query_at, f.query + (b * f.query_batch + h * f.query_head + first * f.query_row), f.query_row, f.queries - first);
  if (n_first < n_last) copy(n_first, keys_at);
  k_copies_end();

  const int warp = threadIdx.x / 32, row = first + warp * F::kTiles * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  const long long bias_at = b * f.bias_batch + h * f.bias_head;
  float out[F::kTiles][V::kGroups][4], top[F::kTiles][2], sum[F::kTiles][2];
  k_clear(out);
#pragma unroll
  for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i) top[t][i] = -k_inf_f32(), sum[t][i] = 0;
  const float factor = F::kFolds ? f.scale : 1.0f;
  k_flash_await_held<F>();
  k_lefts<F::kHeld, Q::kGroups / 2, Q::kBytes, F::kTiles> mine;
  k_lefts_of(mine, query_at + warp * F::kTiles * 16 * Q::kBytes + k_left_place<Q::kBytes>());
  unsigned stage = keys_at, other = keys_at + kStage;
  for (int n = n_first; n < n_last; n += kColumns) {
    k_copies_wait<0>();
    __syncthreads();
    if (n + kColumns < n_last) copy(n + kColumns, other);
    k_copies_end();
    float s[F::kTiles][kGroups][4];
    k_clear(s);
    k_multiply_rows<F::kBf16>(s, mine, stage + k_right_place<Q::kBytes>());
    bool edge = n + kColumns > k_flash_last_key(f, first) || n < k_flash_first_key(f, last);
    if constexpr (F::kBias != 0) edge = edge || first + kRows > f.queries;
    k_flash_scores<false>(f, s, row, n + column, edge, bias_at);
#pragma unroll
    for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float most = top[t][i];
#pragma unroll
        for (int j = 0; j < kGroups; ++j) most = fmaxf(most, fmaxf(s[t][j][2 * i], s[t][j][2 * i + 1]));
        most = k_quad_max(most);
        const float shift = most == -k_inf_f32() ? 0 : most * factor;
        const float shrink = k_exp2(fmaf(top[t][i], factor, -shift));
        top[t][i] = most;
        float more = 0;
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
#pragma unroll
          for (int e = 2 * i; e < 2 * i + 2; ++e) {
            s[t][j][e] = k_exp2(fmaf(s[t][j][e], factor, -shift));
            more += s[t][j][e];
          }
        sum[t][i] = fmaf(sum[t][i], shrink, more);
#pragma unroll
        for (int j = 0; j < V::kGroups; ++j) out[t][j][2 * i] *= shrink, out[t][j][2 * i + 1] *= shrink;
      }
    if constexpr (F::kDrops)
      k_flash_drop<false, F::kTiles, kGroups>(f, head, row, n + column, [&](int t, int j, int i, bool stays) { s[t][j][i] = stays ? s[t][j][i] : 0; });
    k_multiply_columns<F::kBf16, V::kBytes>(out, s, stage + kColumns * Q::kBytes + k_left_place<V::kBytes>());
    const unsigned next = other;
    other = stage;
    stage = next;
  }
  k_copies_wait<0>();

#pragma unroll
  for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int m = row + t * 16 + i * 8;
      const float all = k_quad_sum(sum[t][i]);
      const bool blind = all == 0;
      const float share = blind ? 0 : f.kept_scale / all;
      if (m < f.queries) {
        unsigned short* const to = f.out + (b * f.out_batch + h * f.out_head + m * f.out_row);
#pragma unroll
        for (int j = 0; j < V::kGroups; ++j)
          if (F::kValueWidth % 16 == 0 || j * 8 < F::kValueWidth)
            *(unsigned*)(to + j * 8 + column) = k_halves<F::kBf16>(out[t][j][2 * i] * share, out[t][j][2 * i + 1] * share);
        if (column == 0)
          f.logsumexp[(long long)head * f.queries + m] = blind ? 0 : (top[t][i] * factor + log2f(all)) * 0.6931471805599453f;
      }
    }
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeFlash() { return kParts; }

}  // namespace kiln

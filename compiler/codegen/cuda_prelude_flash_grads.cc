// CUDA's prelude: the two kernels of attention's gradients
// (schedule/flash_kernel.h).

#include "compiler/codegen/cuda_prelude_flash.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // A block computes the gradient of kRows queries, and their sums.
    {"k_flash_query_grad", "", R"(template <class F>
K_FN void k_flash_query_grad(const F& f) {
  enum { kThreads = F::kWarps * 32, kRows = F::kWarps * F::kTiles * 16, kColumns = F::kColumns, kGroups = kColumns / 8 };
  using Q = k_head<F::kWidth>;
  using V = k_head<F::kValueWidth>;
  enum { kStage = kColumns * (Q::kBytes + V::kBytes) };
  extern __shared__ k_words<4> shared[];
  const unsigned query_at = (unsigned)__cvta_generic_to_shared(shared), grad_at = query_at + kRows * Q::kBytes, keys_at = grad_at + kRows * V::kBytes;
  const int blocks = (f.queries + kRows - 1) / kRows;
  int number, head;
  k_flash_block(f, blocks, f.batches * f.heads, f.keys, number, head);
  const int first = (F::kCausal ? blocks - 1 - number : number) * kRows;
  const int h = head % f.heads, b = head / f.heads, x = h / (f.heads / f.key_heads);
  const unsigned short* const keys = f.key + (b * f.key_batch + x * f.key_head);
  const unsigned short* const values = f.value + (b * f.value_batch + x * f.value_head);
  const unsigned short* const grad = f.grad + (b * f.grad_batch + h * f.grad_head);
  const int last = k_minimum_i32(first + kRows, f.queries) - 1;
  const int n_first = k_flash_first_key(f, first) / kColumns * kColumns, n_last = k_flash_last_key(f, last);
  const auto copy = [&](int n, unsigned to) {
    k_copy_heads<kColumns, F::kWidth, kThreads>(to, keys + n * f.key_row, f.key_row, f.keys - n);
    k_copy_heads<kColumns, F::kValueWidth, kThreads>(to + kColumns * Q::kBytes, values + n * f.value_row, f.value_row, f.keys - n);
  };
  k_copy_heads<kRows, F::kWidth, kThreads>(query_at, f.query + (b * f.query_batch + h * f.query_head + first * f.query_row), f.query_row, f.queries - first);
  k_copy_heads<kRows, F::kValueWidth, kThreads>(grad_at, grad + first * f.grad_row, f.grad_row, f.queries - first);
  if (n_first < n_last) copy(n_first, keys_at);
  k_copies_end();

  const int warp = threadIdx.x / 32, row = first + warp * F::kTiles * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  float logsumexp[F::kTiles][2], delta[F::kTiles][2];
#pragma unroll
  for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int m = row + t * 16 + i * 8;
      float part = 0, sums = 0;
      if (m < f.queries) {
        const unsigned short* const g = grad + m * f.grad_row;
        const unsigned short* const o = f.out + (b * f.out_batch + h * f.out_head + m * f.out_row);
#pragma unroll
        for (int e = 0; e < F::kValueWidth; e += 32) {
          if (e + column * 4 < F::kValueWidth) {
            const k_words<4> y = *(const k_words<4>*)(g + e + column * 4), z = *(const k_words<4>*)(o + e + column * 4);
#pragma unroll
            for (int w = 0; w < 4; ++w)
#pragma unroll
              for (int side = 0; side < 32; side += 16) {
                const float grad_of = k_of_half<F::kBf16>((unsigned short)(y.x[w] >> side));
                part = fmaf(grad_of, k_of_half<F::kBf16>((unsigned short)(z.x[w] >> side)), part);
              }
          }
        }
        sums = f.logsumexp[(long long)head * f.queries + m] * 1.4426950408889634f;
      }
      delta[t][i] = k_quad_sum(part);
      logsumexp[t][i] = sums;
      if (column == 0) {
        float* const to = f.sums + ((long long)head * f.padded_queries + m) * 2;
        to[0] = sums;
        to[1] = delta[t][i];
      }
    }

  k_flash_await_held<F>();
  k_lefts<F::kHeld, Q::kGroups / 2, Q::kBytes, F::kTiles> my_queries;
  k_lefts_of(my_queries, query_at + warp * F::kTiles * 16 * Q::kBytes + k_left_place<Q::kBytes>());
  k_lefts<F::kHeld, V::kGroups / 2, V::kBytes, F::kTiles> my_grads;
  k_lefts_of(my_grads, grad_at + warp * F::kTiles * 16 * V::kBytes + k_left_place<V::kBytes>());
  const long long bias_at = b * f.bias_batch + h * f.bias_head;
  float dq[F::kTiles][Q::kGroups][4];
  k_clear(dq);
  unsigned stage = keys_at, other = keys_at + kStage;
  for (int n = n_first; n < n_last; n += kColumns) {
    k_copies_wait<0>();
    __syncthreads();
    if (n + kColumns < n_last) copy(n + kColumns, other);
    k_copies_end();
    float s[F::kTiles][kGroups][4], dp[F::kTiles][kGroups][4];
    k_clear(s);
    k_multiply_rows<F::kBf16>(s, my_queries, stage + k_right_place<Q::kBytes>());
    k_clear(dp);
    k_multiply_rows<F::kBf16>(dp, my_grads, stage + kColumns * Q::kBytes + k_right_place<V::kBytes>());
    const bool edge = n + kColumns > k_flash_last_key(f, first) || n < k_flash_first_key(f, last) || first + kRows > f.queries;
    k_flash_scores<false>(f, s, row, n + column, edge, bias_at);
    if constexpr (F::kDrops)
      k_flash_drop<false, F::kTiles, kGroups>(f, head, row, n + column, [&](int t, int j, int i, bool stays) { dp[t][j][i] = stays ? dp[t][j][i] * f.kept_scale : 0; });
#pragma unroll
    for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
      for (int j = 0; j < kGroups; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) s[t][j][i] = k_flash_weight(f, s[t][j][i], logsumexp[t][i / 2]) * (dp[t][j][i] - delta[t][i / 2]);
    k_multiply_columns<F::kBf16, Q::kBytes>(dq, s, stage + k_left_place<Q::kBytes>());
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
      if (m >= f.queries) continue;
      unsigned short* const to = f.query_grad + (b * f.query_grad_batch + h * f.query_grad_head + m * f.query_grad_row);
#pragma unroll
      for (int j = 0; j < Q::kGroups; ++j)
        if (F::kWidth % 16 == 0 || j * 8 < F::kWidth)
          *(unsigned*)(to + j * 8 + column) = k_halves<F::kBf16>(dq[t][j][2 * i] * f.plain_scale, dq[t][j][2 * i + 1] * f.plain_scale);
    }
}
)"},
    // The part of a head's width that each of kSides warps accumulates, in groups of 8
    // halves: an even number of groups; the last warps may have fewer or none.
    {"k_side", "", R"(template <int W, int kSides>
struct k_side {
  enum { kAll = k_head<W>::kGroups, kGroups = (kAll / 2 + kSides - 1) / kSides * 2 };
  K_FN int groups(int side) { return kAll % kGroups == 0 ? kGroups : k_minimum_i32(kGroups, k_maximum_i32(0, kAll - side * kGroups)); }
};
)"},
    // Writes what a thread has of one row of a gradient, from column `first` on.
    {"k_write_side", "",
     R"(template <bool kBf16, int W, int kGroups>
K_FN void k_write_side(unsigned short* to, int first, const float (&x)[kGroups][4], int i, float factor) {
#pragma unroll
  for (int j = 0; j < kGroups; ++j)
    if (first + j * 8 < W) *(unsigned*)(to + first + j * 8) = k_halves<kBf16>(x[j][2 * i] * factor, x[j][2 * i + 1] * factor);
}
)"},
    // A block computes the gradients of kRows keys and of their values: rows of scores
    // are keys. Heads that share a key are taken one after the other. kSides warps share
    // the same rows: each computes the weights of a part of the columns, and multiplies
    // the weights of all columns with a part of the width.
    {"k_flash_key_grads", "", R"(template <class F>
K_FN void k_flash_key_grads(const F& f) {
  enum { kThreads = F::kWarps * 32, kSides = F::kSides, kRows = F::kWarps / kSides * F::kTiles * 16, kColumns = F::kColumns, kGroups = kColumns / kSides / 8 };
  using Q = k_head<F::kWidth>;
  using V = k_head<F::kValueWidth>;
  using QSide = k_side<F::kWidth, kSides>;
  using VSide = k_side<F::kValueWidth, kSides>;
  enum { kStage = kColumns * (Q::kBytes + V::kBytes + 8), kWeights = kColumns * 2 + 16 };
  extern __shared__ k_words<4> shared[];
  const unsigned key_at = (unsigned)__cvta_generic_to_shared(shared), value_at = key_at + kRows * Q::kBytes, queries_at = value_at + kRows * V::kBytes;
  const int blocks = (f.keys + kRows - 1) / kRows;
  const int shared_by = f.heads / f.key_heads;
  int number, key_head;
  k_flash_block(f, blocks, f.batches * f.key_heads, (long long)f.queries * shared_by, number, key_head);
  const int first = number * kRows, x = key_head % f.key_heads, b = key_head / f.key_heads;
  int m_first = 0, m_last = f.queries;
  if constexpr (F::kCausal) m_first = k_maximum_i32(0, first - f.shift) / kColumns * kColumns;
  if constexpr (F::kWindow > 0) m_last = k_minimum_i32(f.queries, k_minimum_i32(first + kRows, f.keys) - 1 + F::kWindow - f.shift);
  const auto copy = [&](int h, int m, unsigned to) {
    k_copy_heads<kColumns, F::kWidth, kThreads>(to, f.query + (b * f.query_batch + h * f.query_head + m * f.query_row), f.query_row, f.queries - m);
    k_copy_heads<kColumns, F::kValueWidth, kThreads>(to + kColumns * Q::kBytes, f.grad + (b * f.grad_batch + h * f.grad_head + m * f.grad_row), f.grad_row, f.queries - m);
    const float* const sums = f.sums + (((long long)b * f.heads + h) * f.padded_queries + m) * 2;
    for (int i = threadIdx.x; i < kColumns / 2; i += kThreads)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + kColumns * (Q::kBytes + V::kBytes) + i * 16), "l"(sums + i * 4) : "memory");
  };
  k_copy_heads<kRows, F::kWidth, kThreads>(key_at, f.key + (b * f.key_batch + x * f.key_head + first * f.key_row), f.key_row, f.keys - first);
  k_copy_heads<kRows, F::kValueWidth, kThreads>(value_at, f.value + (b * f.value_batch + x * f.value_head + first * f.value_row), f.value_row, f.keys - first);
  if (m_first < m_last) copy(x * shared_by, m_first, queries_at);
  k_copies_end();

  const int warp = threadIdx.x / 32 / kSides, side = kSides == 1 ? 0 : threadIdx.x / 32 % kSides;
  const int mine = warp * F::kTiles * 16, row = first + mine + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  // The first of the columns whose weights this warp computes.
  const int from = side * (kColumns / kSides);
  k_flash_await_held<F>();
  k_lefts<F::kHeld, Q::kGroups / 2, Q::kBytes, F::kTiles> my_keys;
  k_lefts_of(my_keys, key_at + mine * Q::kBytes + k_left_place<Q::kBytes>());
  k_lefts<F::kHeld, V::kGroups / 2, V::kBytes, F::kTiles> my_values;
  k_lefts_of(my_values, value_at + mine * V::kBytes + k_left_place<V::kBytes>());
  // Where all sides read weights and their changes.
  const unsigned weights_at = queries_at + 2 * kStage, changes_at = weights_at + kRows * kWeights;
  float dk[F::kTiles][QSide::kGroups][4], dv[F::kTiles][VSide::kGroups][4];
  k_clear(dk);
  k_clear(dv);
  unsigned stage = 0;
  for (int h = x * shared_by; h < (x + 1) * shared_by; ++h) {
    for (int m = m_first; m < m_last; m += kColumns) {
      k_copies_wait<0>();
      __syncthreads();
      const unsigned here = queries_at + stage * kStage, grads = here + kColumns * Q::kBytes;
      stage ^= 1;
      if (m + kColumns < m_last) {
        copy(h, m + kColumns, queries_at + stage * kStage);
      } else if (h + 1 < (x + 1) * shared_by) {
        copy(h + 1, m_first, queries_at + stage * kStage);
      }
      k_copies_end();
      float s[F::kTiles][kGroups][4];
      k_clear(s);
      k_multiply_rows<F::kBf16>(s, my_keys, here + from * Q::kBytes + k_right_place<Q::kBytes>());
      bool edge = first + kRows > f.keys || m + kColumns > f.queries;
      if constexpr (F::kCausal) edge = edge || first + kRows - 1 > m + f.shift;
      if constexpr (F::kWindow > 0) edge = edge || first <= m + kColumns - 1 + f.shift - F::kWindow;
      k_flash_scores<true>(f, s, row, m + from + column, edge, b * f.bias_batch + h * f.bias_head);
      const k_words<4>* const sums = shared + (grads - key_at + kColumns * V::kBytes) / 16 + from / 2;
      // Weights; those that are dropped have a sign.
#pragma unroll
      for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
          const k_words<4> of = sums[j * 4 + column / 2];
#pragma unroll
          for (int i = 0; i < 4; ++i) s[t][j][i] = k_flash_weight(f, s[t][j][i], __uint_as_float(of.x[i % 2 * 2]));
        }
      if constexpr (F::kDrops)
        k_flash_drop<true, F::kTiles, kGroups>(f, b * f.heads + h, row, m + from + column, [&](int t, int j, int i, bool stays) { s[t][j][i] = stays ? s[t][j][i] : -s[t][j][i]; });
      if constexpr (kSides == 1) {
        k_multiply_columns<F::kBf16, V::kBytes, F::kDrops>(dv, s, grads + k_left_place<V::kBytes>());
      } else {
        k_store_left<F::kBf16, kWeights, F::kDrops>(shared, weights_at - key_at + mine * kWeights + from * 2, s);
      }
      float dp[F::kTiles][kGroups][4];
      k_clear(dp);
      k_multiply_rows<F::kBf16>(dp, my_values, grads + from * V::kBytes + k_right_place<V::kBytes>());
#pragma unroll
      for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
          const k_words<4> of = sums[j * 4 + column / 2];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float change = dp[t][j][i];
            if constexpr (F::kDrops) change = s[t][j][i] < 0 ? 0 : change * f.kept_scale;
            s[t][j][i] = fabsf(s[t][j][i]) * (change - __uint_as_float(of.x[i % 2 * 2 + 1]));
          }
        }
      if constexpr (kSides == 1) {
        k_multiply_columns<F::kBf16, Q::kBytes>(dk, s, here + k_left_place<Q::kBytes>());
      } else {
        k_store_left<F::kBf16, kWeights>(shared, changes_at - key_at + mine * kWeights + from * 2, s);
        __syncthreads();
        const unsigned left = mine * kWeights + k_left_place<kWeights>();
        k_multiply_stored<F::kBf16, kColumns / 16, kWeights, V::kBytes>(dv, weights_at + left, grads + side * VSide::kGroups * 16 + k_left_place<V::kBytes>(), VSide::groups(side));
        k_multiply_stored<F::kBf16, kColumns / 16, kWeights, Q::kBytes>(dk, changes_at + left, here + side * QSide::kGroups * 16 + k_left_place<Q::kBytes>(), QSide::groups(side));
      }
    }
  }
  k_copies_wait<0>();
#pragma unroll
  for (int t = 0; t < F::kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int n = row + t * 16 + i * 8;
      if (n >= f.keys) continue;
      k_write_side<F::kBf16, F::kWidth>(f.key_grad + (b * f.key_grad_batch + x * f.key_grad_head + n * f.key_grad_row), side * QSide::kGroups * 8 + column, dk[t], i, f.plain_scale);
      k_write_side<F::kBf16, F::kValueWidth>(f.value_grad + (b * f.value_grad_batch + x * f.value_grad_head + n * f.value_grad_row), side * VSide::kGroups * 8 + column, dv[t], i, f.kept_scale);
    }
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeFlashGrads() { return kParts; }

}  // namespace kiln

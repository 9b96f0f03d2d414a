// CUDA's prelude: products of matrices whose sums are short, by warps that share
// nothing (schedule/matrix_product.h).

#include "compiler/codegen/cuda_prelude_flash.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // The lower or the upper halves of two words.
    {"k_pick_halves", "",
     R"(K_FN unsigned k_pick_halves(unsigned x, unsigned y, bool upper) { return __byte_perm(x, y, upper ? 0x7632 : 0x5410); }
)"},
    // N neighbours, of which `left` exist; others are 0. kWide: all exist or none.
    {"k_take_halves", "",
     R"(template <int N, bool kWide>
K_FN void k_take_halves(unsigned (&to)[N / 2], const unsigned short* from, int left) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) to[i] = 0;
  if constexpr (kWide) {
    if (left > 0) {
      const k_words<N / 2> w = *(const k_words<N / 2>*)from;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) to[i] = w.x[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < left) to[i / 2] |= (unsigned)from[i] << (i % 2 * 16);
  }
}
)"},
    // Left factors of sixteen points of the sum, from k on. A thread has 2 kTiles
    // neighbouring rows, and of each four neighbouring points: the order of a sum is
    // free as long as both factors have the same one.
    {"k_product_rows", "",
     R"(template <class P>
K_FN void k_product_rows(unsigned (&x)[P::kTiles][4], const unsigned short* from, long long stride, long long depth_stride, int rows, int k) {
  if constexpr (P::kRowsAlong) {
#pragma unroll
    for (int r = 0; r < 2 * P::kTiles; ++r) {
      unsigned w[2];
      k_take_halves<4, P::kRowsWide>(w, from + (r * stride + k), r < rows ? P::kDepth - k : 0);
      x[r / 2][r % 2] = w[0];
      x[r / 2][r % 2 + 2] = w[1];
    }
  } else {
    unsigned w[4][P::kTiles];
#pragma unroll
    for (int p = 0; p < 4; ++p)
      k_take_halves<2 * P::kTiles, P::kRowsWide>(w[p], from + (k + p) * depth_stride, k + p < P::kDepth ? rows : 0);
#pragma unroll
    for (int t = 0; t < P::kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[t][i] = k_pick_halves(w[i / 2 * 2][t], w[i / 2 * 2 + 1][t], i % 2 != 0);
  }
}
)"},
    // Right factors of the same points, for 32 columns. The eight columns of each
    // product are apart, so that the sums that a thread gets lie side by side.
    {"k_product_columns", "",
     R"(template <class P>
K_FN void k_product_columns(unsigned (&y)[4][2], const unsigned short* from, long long stride, long long depth_stride, int columns, int k) {
  const int place = threadIdx.x % 32 / 4, first = place / 2 * 8, own = place % 2;
  if constexpr (P::kColumnsAlong) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = first + 2 * j + own;
      k_take_halves<4, P::kColumnsWide>(y[j], from + (column * stride + k), column < columns ? P::kDepth - k : 0);
    }
  } else {
    unsigned w[4][4];
#pragma unroll
    for (int p = 0; p < 4; ++p)
      k_take_halves<8, P::kColumnsWide>(w[p], from + ((k + p) * depth_stride + first), k + p < P::kDepth ? columns - first : 0);
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) y[j][i] = k_pick_halves(w[2 * i][j], w[2 * i + 1][j], own != 0);
  }
}
)"},
    // Adds a @ b. A thread's rows are `a`'s next 2 kTiles; its columns in strip s of
    // `b` the eight from 32 s + 8 (lane % 4) on: row r and column e of them are
    // c[r / 2][4 s + e / 2][r % 2 * 2 + e % 2].
    {"k_product", "",
     R"(template <class P>
K_FN void k_product(float (&c)[P::kTiles][4 * P::kStrips][4], const unsigned short* a, long long a_stride, long long a_depth, int rows, const unsigned short* b, long long b_stride, long long b_depth, int columns) {
#pragma unroll
  for (int k = 0; k < P::kDepth; k += 16) {
    const int mine = k + threadIdx.x % 4 * 4;
    unsigned x[P::kTiles][4];
    k_product_rows<P>(x, a, a_stride, a_depth, rows, mine);
#pragma unroll
    for (int s = 0; s < P::kStrips; ++s) {
      unsigned y[4][2];
      k_product_columns<P>(y, b + s * 32 * b_stride, b_stride, b_depth, columns - s * 32, mine);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int t = 0; t < P::kTiles; ++t) k_multiply<P::kBf16>(c[t][4 * s + j], x[t], y[j][0], y[j][1]);
    }
  }
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeProduct() { return kParts; }

}  // namespace kiln

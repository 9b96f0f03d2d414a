// CUDA's prelude: products of halves by tensor cores, as a warp has them in
// registers and a block in shared memory. Source: PTX ISA, "Warp Level Matrix
// Instructions".

#include "compiler/codegen/cuda_prelude_flash.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // Heads of W halves, row by row in shared memory: whole tiles of 16, and 16 bytes
    // that put the chunks of neighbouring rows in different banks.
    {"k_head", "", R"(template <int W>
struct k_head {
  enum { kPadded = (W + 15) / 16 * 16, kGroups = kPadded / 8, kBytes = kPadded * 2 + 16 };
};
)"},
    // Copies rows of a head asynchronously; what is not there becomes 0. A thread has
    // the same place in each group of neighbours, so that it adds constants alone.
    {"k_copy_heads", "", R"(template <int kRows, int W, int kThreads>
K_FN void k_copy_heads(unsigned to, const unsigned short* from, long long stride, int rows) {
  enum { kChunks = k_head<W>::kGroups, kNear = kChunks & -kChunks, kStep = kThreads / kNear };
  const int mine = (int)threadIdx.x / kNear, near = (int)threadIdx.x % kNear;
  const unsigned place = to + mine * k_head<W>::kBytes + near * 16;
  const unsigned short* const first = from + (mine * stride + near * 8);
#pragma unroll
  for (int row = 0; row < kRows; row += kStep) {
    if (kRows % kStep == 0 || row + mine < kRows) {
      const bool there = row + mine < rows;
      const unsigned short* const source = there ? first + row * stride : from;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; chunk += kNear) {
        const bool has = there && (W % 16 == 0 || (chunk + near) * 8 < W);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place + row * k_head<W>::kBytes + chunk * 16), "l"(W % 16 == 0 || has ? source + chunk * 8 : from), "r"(has ? 16 : 0) : "memory");
      }
    }
  }
}
)"},
    // Four matrices of 8 by 8 halves, each lane with the address of a row.
    {"k_matrices", "", R"(K_FN void k_matrices(unsigned (&to)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
)"},
    {"k_matrices_transposed", "",
     R"(K_FN void k_matrices_transposed(unsigned (&to)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}
)"},
    // c[16, 8] += a[16, 16] @ b[16, 8], spread over a warp as tensor cores have it.
    {"k_multiply", "", R"(template <bool kBf16>
K_FN void k_multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  if constexpr (kBf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
)"},
    {"k_halves", "", R"(template <bool kBf16>
K_FN unsigned k_halves(float low, float high) {
  unsigned to;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
  }
  return to;
}
)"},
    {"k_of_half", "", R"(template <bool kBf16>
K_FN float k_of_half(unsigned short x) {
  if constexpr (kBf16) return __uint_as_float((unsigned)x << 16);
  float to;
  asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(x));
  return to;
}
)"},
    // A lane's place in 16 by 16 halves of which k_matrices makes a left factor, and of
    // which k_matrices_transposed makes two right ones.
    {"k_left_place", "", R"(template <int kBytes>
K_FN unsigned k_left_place() { return threadIdx.x % 16 * kBytes + threadIdx.x % 32 / 16 * 16; }
)"},
    // The same of two right factors by k_matrices.
    {"k_right_place", "", R"(template <int kBytes>
K_FN unsigned k_right_place() { return (threadIdx.x % 8 + threadIdx.x % 32 / 16 * 8) * kBytes + threadIdx.x / 8 % 2 * 16; }
)"},
    // The products of all left factors with two right ones, added to groups j and j + 1.
    {"k_multiply_two", "", R"(template <bool kBf16, int kTiles, int kGroups>
K_FN void k_multiply_two(float (&c)[kTiles][kGroups][4], int j, const unsigned (&x)[kTiles][4], const unsigned (&y)[4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    k_multiply<kBf16>(c[t][j], x[t], y[0], y[1]);
    k_multiply<kBf16>(c[t][j + 1], x[t], y[2], y[3]);
  }
}
)"},
    // Left factors, of 16 columns in step k.
    {"k_left_step", "", R"(template <int kBytes, int kTiles>
K_FN void k_left_step(unsigned (&x)[kTiles][4], unsigned at, int k) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) k_matrices(x[t], at + t * 16 * kBytes + k * 32);
}
)"},
    // Left factors of kSteps times 16 columns, in shared memory; kHeld: in registers too.
    {"k_lefts", "", R"(template <bool kHeld, int kSteps, int kBytes, int kTiles>
struct k_lefts {
  unsigned at, held[kHeld ? kSteps : 1][kTiles][4];
};
)"},
    {"k_lefts_of", "", R"(template <bool kHeld, int kSteps, int kBytes, int kTiles>
K_FN void k_lefts_of(k_lefts<kHeld, kSteps, kBytes, kTiles>& lefts, unsigned at) {
  lefts.at = at;
  if constexpr (kHeld) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) k_left_step<kBytes>(lefts.held[k], at, k);
  }
}
)"},
    // c += x @ b^T of the 16 columns in step k; b in shared memory.
    {"k_multiply_step", "", R"(template <bool kBf16, int kBytes, int kTiles, int kGroups>
K_FN void k_multiply_step(float (&c)[kTiles][kGroups][4], const unsigned (&x)[kTiles][4], unsigned b, int k) {
#pragma unroll
  for (int j = 0; j < kGroups; j += 2) {
    unsigned y[4];
    k_matrices(y, b + j * 8 * kBytes + k * 32);
    k_multiply_two<kBf16>(c, j, x, y);
  }
}
)"},
    // c += a @ b^T; b in shared memory in rows of as many bytes as a's.
    {"k_multiply_rows", "",
     R"(template <bool kBf16, bool kHeld, int kSteps, int kBytes, int kTiles, int kGroups>
K_FN void k_multiply_rows(float (&c)[kTiles][kGroups][4], const k_lefts<kHeld, kSteps, kBytes, kTiles>& a, unsigned b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    if constexpr (kHeld) {
      k_multiply_step<kBf16, kBytes>(c, a.held[k], b, k);
    } else {
      unsigned x[kTiles][4];
      k_left_step<kBytes>(x, a.at, k);
      k_multiply_step<kBf16, kBytes>(c, x, b, k);
    }
  }
}
)"},
    // c += p @ b, of which p is in registers as products leave it. kCut: what is below 0
    // in p counts as 0.
    {"k_multiply_columns", "",
     R"(template <bool kBf16, int kBytes, bool kCut = false, int kTiles, int kInner, int kGroups>
K_FN void k_multiply_columns(float (&c)[kTiles][kGroups][4], const float (&p)[kTiles][kInner][4], unsigned b) {
  const auto cut = [](float x) { return kCut && x < 0 ? 0 : x; };
#pragma unroll
  for (int k = 0; k < kInner; k += 2) {
    unsigned x[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[t][i] = k_halves<kBf16>(cut(p[t][k + i / 2][i % 2 * 2]), cut(p[t][k + i / 2][i % 2 * 2 + 1]));
#pragma unroll
    for (int j = 0; j < kGroups; j += 2) {
      unsigned y[4];
      k_matrices_transposed(y, b + k * 8 * kBytes + j * 16);
      k_multiply_two<kBf16>(c, j, x, y);
    }
  }
}
)"},
    // Writes p, in registers as products leave it, to shared memory, as halves in rows of
    // kBytes; `at`: in bytes from `shared` on. kCut: as in k_multiply_columns.
    {"k_store_left", "",
     R"(template <bool kBf16, int kBytes, bool kCut = false, int kTiles, int kGroups>
K_FN void k_store_left(k_words<4>* shared, unsigned at, const float (&p)[kTiles][kGroups][4]) {
  const auto cut = [](float x) { return kCut && x < 0 ? 0 : x; };
  char* const to = (char*)shared + at + threadIdx.x % 32 / 4 * kBytes + threadIdx.x % 4 * 4;
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < kGroups; ++j)
        *(unsigned*)(to + (t * 16 + i * 8) * kBytes + j * 16) = k_halves<kBf16>(cut(p[t][j][2 * i]), cut(p[t][j][2 * i + 1]));
}
)"},
    // c += p @ b, both in shared memory; b has `groups` times 8 columns.
    {"k_multiply_stored", "",
     R"(template <bool kBf16, int kSteps, int kLeftBytes, int kBytes, int kTiles, int kGroups>
K_FN void k_multiply_stored(float (&c)[kTiles][kGroups][4], unsigned p, unsigned b, int groups) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    unsigned x[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) k_matrices(x[t], p + t * 16 * kLeftBytes + k * 32);
#pragma unroll
    for (int j = 0; j < kGroups; j += 2) {
      if (j >= groups) break;
      unsigned y[4];
      k_matrices_transposed(y, b + k * 16 * kBytes + j * 16);
      k_multiply_two<kBf16>(c, j, x, y);
    }
  }
}
)"},
    {"k_clear", "", R"(template <int kTiles, int kGroups>
K_FN void k_clear(float (&c)[kTiles][kGroups][4]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[t][j][i] = 0;
}
)"},
    // Over the four lanes that share a row of a product.
    {"k_quad_sum", "", R"(K_FN float k_quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
)"},
    {"k_quad_max", "", R"(K_FN float k_quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeMatrices() { return kParts; }

}  // namespace kiln

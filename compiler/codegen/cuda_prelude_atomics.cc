#include "compiler/codegen/cuda_prelude_atomics.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    {"k_atomic_add_$T", "i32 f32 f64",
     R"(K_FN void k_atomic_add_$T($C* p, $C x) { atomicAdd(p, x); }
)"},
    {"k_atomic_max_$T", "i32 i64",
     R"(K_FN void k_atomic_max_$T($C* p, $C x) { atomicMax(p, x); }
)"},
    {"k_atomic_mul", "", R"(template <class W, class T>
K_FN void k_atomic_mul(T* p, T x) {
  union { W word; T value; } now;
  W old = *(volatile W*)p, seen;
  do {
    seen = old;
    now.word = seen;
    now.value *= x;
    old = atomicCAS((W*)p, seen, now.word);
  } while (old != seen);
}
)"},
    {"k_atomic_mul_$T", "i32 f32",
     R"(K_FN void k_atomic_mul_$T($C* p, $C x) { k_atomic_mul<unsigned>(p, x); }
)"},
    {"k_atomic_mul_$T", "i64 f64",
     R"(K_FN void k_atomic_mul_$T($C* p, $C x) { k_atomic_mul<unsigned long long>(p, x); }
)"},
    {"k_atomic_add_i64", "",
     R"(K_FN void k_atomic_add_i64(long long* p, long long x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
)"},
    {"k_atomic_add_$T", "bf16 f16",
     R"(K_FN void k_atomic_add_$T(unsigned short* p, unsigned short x) {
  unsigned int* word = (unsigned int*)((unsigned long long)p & ~3ull);
  const int shift = ((unsigned long long)p & 2) * 8;
  unsigned int old = *word, seen;
  do {
    seen = old;
    const unsigned short sum = k_f32_to_$T(k_$T_to_f32((unsigned short)(seen >> shift)) + k_$T_to_f32(x));
    old = atomicCAS(word, seen, (seen & ~(0xffffu << shift)) | (unsigned int)sum << shift);
  } while (old != seen);
}
)"},
    // Whole groups in one instruction for 16 bytes (PTX ISA, "red").
    {"k_atomic_add_wide_f32", "", R"(/* k_pack */
template <int V>
K_FN void k_atomic_add_wide_f32(float* p, const k_pack<float, V>& x) {
  if constexpr (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4)
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p + i), "f"(k_at(x, i)), "f"(k_at(x, i + 1)), "f"(k_at(x, i + 2)), "f"(k_at(x, i + 3)) : "memory");
  } else {
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(k_at(x, 0)), "f"(k_at(x, 1)) : "memory");
  }
}
)"},
    {"k_atomic_add_wide_$T", "bf16 f16", R"(/* k_pack */
template <int V>
K_FN void k_atomic_add_wide_$T(unsigned short* p, const k_pack<unsigned short, V>& x) {
  if constexpr (V % 8 == 0) {
#pragma unroll
    for (int i = 0; i < V / 2; i += 4)
      asm volatile("red.global.add.noftz.v4.$Tx2 [%0], {%1, %2, %3, %4};" ::"l"(p + 2 * i), "r"(x.x[i]), "r"(x.x[i + 1]), "r"(x.x[i + 2]), "r"(x.x[i + 3]) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < V / 2; ++i)
      asm volatile("red.global.add.noftz.$Tx2 [%0], %1;" ::"l"(p + 2 * i), "r"(x.x[i]) : "memory");
  }
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeAtomics() { return kParts; }

}  // namespace kiln

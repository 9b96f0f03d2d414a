// CUDA's prelude: groups of neighbours, and how they are loaded, stored and copied.

#include "compiler/codegen/cuda_prelude_accesses.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // V neighbours of type T as 32-bit words, so that halves take half a register
    // each while they wait. Indices must be constants once loops are unrolled.
    {"k_pack", "", R"(template <class T, int V>
struct k_pack {
  enum { kBytes = V * sizeof(T), kWords = (kBytes + 3) / 4 };
  unsigned x[kWords];
};
template <class T, int V>
K_FN T k_at(const k_pack<T, V>& p, int e) {
  if constexpr (sizeof(T) == 8) {
    const unsigned long long bits = (unsigned long long)p.x[2 * e + 1] << 32 | p.x[2 * e];
    T value;
    memcpy(&value, &bits, 8);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    T value;
    memcpy(&value, &p.x[e], 4);
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return (T)(unsigned short)(p.x[e / 2] >> (e % 2 * 16));
  } else {
    return (T)(unsigned char)(p.x[e / 4] >> (e % 4 * 8));
  }
}
template <class T, int V>
K_FN void k_put(k_pack<T, V>& p, int e, T value) {
  if constexpr (sizeof(T) == 8) {
    unsigned long long bits;
    memcpy(&bits, &value, 8);
    p.x[2 * e] = (unsigned)bits;
    p.x[2 * e + 1] = (unsigned)(bits >> 32);
  } else if constexpr (sizeof(T) == 4) {
    memcpy(&p.x[e], &value, 4);
  } else if constexpr (sizeof(T) == 2) {
    const unsigned mask = 0xffffu << (e % 2 * 16);
    p.x[e / 2] = (p.x[e / 2] & ~mask) | (unsigned)(unsigned short)value << (e % 2 * 16);
  } else {
    const unsigned mask = 0xffu << (e % 4 * 8);
    p.x[e / 4] = (p.x[e / 4] & ~mask) | (unsigned)(unsigned char)value << (e % 4 * 8);
  }
}
)"},
    {"k_at", "", "/* k_pack */"},
    {"k_put", "", "/* k_pack */"},
    // Hides from the compiler what it knows of the pack's value.
    {"k_forget", "", R"(/* k_pack */
template <class T, int V>
K_FN void k_forget(k_pack<T, V>& p) {
#pragma unroll
  for (int i = 0; i < k_pack<T, V>::kWords; ++i) asm volatile("" : "+r"(p.x[i]));
}
)"},
    // A copy to shared memory that goes on by itself, in steps of up to 16 bytes.
    // Copies end in the order of their batches: k_copies_wait<N> waits until at
    // most N of them are under way.
    {"k_copy", "", R"(template <int kBytes>
K_FN void k_copy(void* to, const void* from) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (kBytes % 16 == 0) {
#pragma unroll
    for (int b = 0; b < kBytes; b += 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + b), "l"((const char*)from + b) : "memory");
  } else {
    static_assert(kBytes == 4 || kBytes == 8);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(kBytes) : "memory");
  }
}
)"},
    {"k_copies_end", "",
     R"(K_FN void k_copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
)"},
    {"k_copies_wait", "", R"(template <int N>
K_FN void k_copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
)"},
    // A pack out of memory that is aligned for it, in the fewest accesses.
    {"k_own", "", R"(/* k_pack k_words */
template <class T, int V>
K_FN k_pack<T, V> k_own(const k_pack<T, V>& from) {
  enum { kStep = (int)k_pack<T, V>::kWords < 4 ? (int)k_pack<T, V>::kWords : 4 };
  k_pack<T, V> to;
#pragma unroll
  for (int i = 0; i < k_pack<T, V>::kWords; i += kStep) {
    const k_words<kStep> w = *((const k_words<kStep>*)from.x + i / kStep);
#pragma unroll
    for (int j = 0; j < kStep; ++j) to.x[i + j] = w.x[j];
  }
  return to;
}
)"},
    // Packs move in accesses of up to 16 bytes.
    {"k_words", "", R"(template <int N> struct k_words;
template <> struct __attribute__((aligned(16))) k_words<4> { unsigned x[4]; };
template <> struct __attribute__((aligned(8))) k_words<2> { unsigned x[2]; };
template <> struct __attribute__((aligned(4))) k_words<1> { unsigned x[1]; };
)"},
    // With kLast nothing needs the elements afterwards: in caches, they make room first.
    {"k_load", "", R"(template <class T, int V, bool kLast = false>
K_FN k_pack<T, V> k_load(const T* p) {
  k_pack<T, V> to;
  if constexpr (k_pack<T, V>::kBytes % 4 != 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) k_put(to, e, p[e]);
  } else {
    enum { kStep = (int)k_pack<T, V>::kWords < 4 ? (int)k_pack<T, V>::kWords : 4 };
#pragma unroll
    for (int i = 0; i < k_pack<T, V>::kWords; i += kStep) {
      const k_words<kStep> w = kLast ? k_read_last((const k_words<kStep>*)p + i / kStep) : *((const k_words<kStep>*)p + i / kStep);
#pragma unroll
      for (int j = 0; j < kStep; ++j) to.x[i + j] = w.x[j];
    }
  }
  return to;
}
)"},
    {"k_read_last", "", R"(/* k_words */
template <int N>
K_FN k_words<N> k_read_last(const k_words<N>* p) {
  k_words<N> w;
  if constexpr (N == 4) {
    *(uint4*)&w = __ldcs((const uint4*)p);
  } else if constexpr (N == 2) {
    *(uint2*)&w = __ldcs((const uint2*)p);
  } else {
    w.x[0] = __ldcs((const unsigned*)p);
  }
  return w;
}
)"},
    {"k_store", "", R"(template <class T, int V>
K_FN void k_store(T* p, const k_pack<T, V>& from) {
  if constexpr (k_pack<T, V>::kBytes % 4 != 0) {
#pragma unroll
    for (int e = 0; e < V; ++e) p[e] = k_at(from, e);
  } else {
    enum { kStep = (int)k_pack<T, V>::kWords < 4 ? (int)k_pack<T, V>::kWords : 4 };
#pragma unroll
    for (int i = 0; i < k_pack<T, V>::kWords; i += kStep) {
      k_words<kStep> w;
#pragma unroll
      for (int j = 0; j < kStep; ++j) w.x[j] = from.x[i + j];
      *((k_words<kStep>*)p + i / kStep) = w;
    }
  }
}
)"},
    // Of the neighbours from lo to hi; the others are 0.
    {"k_load_part", "", R"(template <class T, int V, bool kLast = false>
K_FN k_pack<T, V> k_load_part(const T* p, int lo, int hi) {
  if (lo == 0 && hi == V) return k_load<T, V, kLast>(p);
  k_pack<T, V> to = {};
#pragma unroll
  for (int e = 0; e < V; ++e)
    if (e >= lo && e < hi) k_put(to, e, p[e]);
  return to;
}
)"},
    // The whole pack if that is `within` what may be read.
    {"k_load_within", "", R"(template <class T, int V, bool kLast = false>
K_FN k_pack<T, V> k_load_within(const T* p, bool within, int lo, int hi) {
  return within ? k_load<T, V, kLast>(p) : k_load_part<T, V, kLast>(p, lo, hi);
}
)"},
    {"k_store_part", "", R"(template <class T, int V>
K_FN void k_store_part(T* p, int lo, int hi, const k_pack<T, V>& from) {
  if (lo == 0 && hi == V) {
    k_store(p, from);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e >= lo && e < hi) p[e] = k_at(from, e);
  }
}
)"},
    {"k_fill", "", R"(template <class T, int V>
K_FN void k_fill(k_pack<T, V>& to, T value) {
#pragma unroll
  for (int e = 0; e < V; ++e) k_put(to, e, value);
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeAccesses() { return kParts; }

}  // namespace kiln

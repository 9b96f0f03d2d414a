#include "compiler/codegen/cuda_prelude_sorts.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // A number that compares as the value does, in as many low bits as the value has: NaN
    // is the largest, both zeros are one. Descending: the other way round.
    {"k_sort_order_f32", "", R"(template <bool kDescending>
K_FN unsigned k_sort_order_f32(float x) {
  const unsigned bits = __float_as_uint(x + 0.0f);
  const unsigned order = x != x ? 0xffffffffu : bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return kDescending ? ~order : order;
}
)"},
    {"k_sort_order_bf16", "", R"(/* k_sort_order_f32 */
template <bool kDescending>
K_FN unsigned k_sort_order_bf16(unsigned short x) { return k_sort_order_f32<kDescending>(k_bf16_to_f32(x)) >> 16; }
)"},
    {"k_sort_order_f16", "", R"(template <bool kDescending>
K_FN unsigned k_sort_order_f16(unsigned short x) {
  const unsigned size = x & 0x7fffu;
  const unsigned order = size > 0x7c00u ? 0xffffu : x > 0x8000u ? 0x8000u - size : 0x8000u + size;
  return kDescending ? 0xffffu - order : order;
}
)"},
    {"k_sort_order_i32", "", R"(template <bool kDescending>
K_FN unsigned k_sort_order_i32(int x) {
  const unsigned order = (unsigned)x ^ 0x80000000u;
  return kDescending ? ~order : order;
}
)"},
    {"k_sort_order_i16", "", R"(template <bool kDescending>
K_FN unsigned k_sort_order_i16(short x) {
  const unsigned order = (unsigned)((int)x + 0x8000);
  return kDescending ? 0xffffu - order : order;
}
)"},
    {"k_sort_order_$T", "u8 i8 b", R"(template <bool kDescending>
K_FN unsigned k_sort_order_$T($C x) {
  const unsigned order = (unsigned)((int)x + (($C)-1 < ($C)0 ? 0x80 : 0));
  return kDescending ? 0xffu - order : order;
}
)"},
    // Sorts the words by their upper 8 kPasses bits, ascending; equal ones keep their
    // order. The order of the first `count` words is theirs alone. If `places` is not
    // null, it gets where each word stood before. All have room for kThreads kItems
    // entries, `counts` for 8 kThreads. A warp takes words side by side, so that ranks
    // within warps, in their order, are ranks in the row. Begins and ends with a barrier.
    {"k_radix_sort", "", R"(/* k_rank k_digit_starts */
template <int kThreads, int kItems, int kPasses, bool kPlaces>
K_FN void k_radix_sort(unsigned* words, unsigned short* places, unsigned* counts, int count) {
  const int t = (int)threadIdx.x, items = (count + kThreads - 1) / kThreads;
  const int first = t / 32 * (32 * items) + t % 32;
  unsigned* const own = counts + t / 32 * 256;
  for (int i = count + t; i < kThreads * items; i += kThreads) words[i] = 0xffffffffu;
#pragma unroll 1
  for (int shift = 32 - 8 * kPasses; shift < 32; shift += 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) counts[i * kThreads + t] = 0u;
    __syncthreads();
    unsigned word[kItems], rank[kItems];
    unsigned short place[kItems];
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
      if (u < items) {
        const int i = first + u * 32;
        word[u] = words[i];
        if (kPlaces) place[u] = shift == 32 - 8 * kPasses ? (unsigned short)i : places[i];
        const int digit = (int)(word[u] >> shift & 255u);
        rank[u] = k_rank(own, digit, k_same<8>(digit));
      }
    }
    __syncthreads();
    k_digit_starts<kThreads>(counts);
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
      if (u < items) {
        const unsigned to = own[word[u] >> shift & 255u] + rank[u];
        words[to] = word[u];
        if (kPlaces) places[to] = place[u];
      }
    }
    __syncthreads();
  }
}
)"},
    // The counts of each warp, of 256 digits each, become where the warp's words with
    // this digit begin. A thread has digits side by side.
    {"k_digit_starts", "", R"(/* k_scan k_keep */
template <int kThreads>
K_FN void k_digit_starts(unsigned* counts) {
  enum { kWarps = kThreads / 32, kEach = kThreads < 256 ? 256 / kThreads : 1, kStep = kEach < 4 ? kEach : 4 };
  unsigned* const mine = counts + (int)threadIdx.x * kEach;
  unsigned before[kWarps][kEach], total = 0u;
  if (threadIdx.x < 256) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
#pragma unroll
      for (int e = 0; e < kEach; e += kStep)
        *(k_wide<unsigned, kStep>*)(before[w] + e) = *(const k_wide<unsigned, kStep>*)(mine + w * 256 + e);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const unsigned own = before[w][e];
        before[w][e] = total;
        total += own;
      }
    }
  }
  unsigned start[1] = {total};
  k_scan<kThreads, kThreads>(start, 0u, 0u, [](unsigned a, unsigned b) { return a + b; });
  if (threadIdx.x < 256) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) before[w][e] += start[0];
      k_keep<kEach>(mine + w * 256, before[w]);
    }
  }
}
)"},
    // The first `count` keys, ascending, by a bitonic network: the same exchanges
    // whatever the keys are. Those behind them, up to the next power of two, are
    // overwritten. Begins and ends with a barrier.
    {"k_sort", "", R"(template <int kThreads>
K_FN void k_sort(unsigned long long* keys, int count) {
  int all = 2;
  while (all < count) all *= 2;
  for (int i = count + (int)threadIdx.x; i < all; i += kThreads) keys[i] = ~0ull;
#pragma unroll 1
  for (int size = 2; size <= all; size *= 2) {
    int apart = size / 2;
    // Two stages at a time: four keys are read and written once for both.
#pragma unroll 1
    for (; apart > 1; apart /= 4) {
      __syncthreads();
      const int half = apart / 2;
      for (int c = (int)threadIdx.x; c < all / 4; c += kThreads) {
        const int i = 4 * c - 3 * (c & (half - 1));
        unsigned long long k[4] = {keys[i], keys[i + half], keys[i + apart], keys[i + apart + half]};
        const bool up = (i & size) == 0;
        k_order(k[0], k[2], up);
        k_order(k[1], k[3], up);
        k_order(k[0], k[1], up);
        k_order(k[2], k[3], up);
        keys[i] = k[0];
        keys[i + half] = k[1];
        keys[i + apart] = k[2];
        keys[i + apart + half] = k[3];
      }
    }
    if (apart == 0) continue;
    __syncthreads();
    for (int c = (int)threadIdx.x; c < all / 2; c += kThreads)
      k_order(keys[2 * c], keys[2 * c + 1], (2 * c & size) == 0);
  }
  __syncthreads();
}
)"},
    {"k_order", "",
     R"(K_FN void k_order(unsigned long long& a, unsigned long long& b, bool up) {
  const unsigned long long low = a < b ? a : b, high = a < b ? b : a;
  a = up ? low : high;
  b = up ? high : low;
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeSorts() { return kParts; }

}  // namespace kiln

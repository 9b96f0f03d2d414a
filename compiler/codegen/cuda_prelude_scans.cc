#include "compiler/codegen/cuda_prelude_scans.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    {"k_shuffle_up", "", R"(template <class T>
K_FN T k_shuffle_up(T x, int distance, int lanes) { return __shfl_up_sync(0xffffffffu, x, distance, lanes); }
)"},
    {"k_shuffle_from", "", R"(template <class T>
K_FN T k_shuffle_from(T x, int lane, int lanes) { return __shfl_sync(0xffffffffu, x, lane, lanes); }
)"},
    // A sum of exponentials: the greatest of the logarithms of its terms, and the sum
    // relative to that term. One from a value, and the logarithm of one, by casts.
    {"k_lse_$T", "f32 f64",
     R"(/* k_maximum_$T k_shuffle k_shuffle_up k_shuffle_from */
struct k_lse_$T {
  $C max;
  double sum;
  k_lse_$T() = default;
  __device__ k_lse_$T($C m, double s) : max(m), sum(s) {}
  __device__ explicit k_lse_$T($C x) : max(x), sum(1.0) {}
  __device__ k_lse_$T(const volatile k_lse_$T& of) : max(of.max), sum(of.sum) {}
  k_lse_$T(const k_lse_$T&) = default;
  k_lse_$T& operator=(const k_lse_$T&) = default;
  __device__ explicit operator $C() const { return max + log$S(($C)sum); }
};
K_FN k_lse_$T k_lse_join(k_lse_$T a, k_lse_$T b) {
  const $C less = exp$S(a.max == b.max ? ($C)0 : a.max > b.max ? b.max - a.max : a.max - b.max);
  return {k_maximum_$T(a.max, b.max), a.max > b.max ? fma(b.sum, (double)less, a.sum) : fma(a.sum, (double)less, b.sum)};
}
K_FN k_lse_$T k_shuffle(k_lse_$T x, int distance) { return {k_shuffle(x.max, distance), k_shuffle(x.sum, distance)}; }
K_FN k_lse_$T k_shuffle_up(k_lse_$T x, int distance, int lanes) { return {k_shuffle_up(x.max, distance, lanes), k_shuffle_up(x.sum, distance, lanes)}; }
K_FN k_lse_$T k_shuffle_from(k_lse_$T x, int lane, int lanes) { return {k_shuffle_from(x.max, lane, lanes), k_shuffle_from(x.sum, lane, lanes)}; }
)"},
    {"k_scan", "",
     R"(// `x` becomes what the lanes before this one have, joined in their order, for
// each of kTiles values alone; `all`: what all kLanes have.
template <int kLanes, int kTiles, class T, class F>
K_FN void k_scan_lanes(T (&x)[kTiles], T (&all)[kTiles], T none, F join) {
  const int lane = (int)threadIdx.x % kLanes;
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
    T sum = x[k];
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const T other = k_shuffle_up(sum, distance, kLanes);
      if (lane >= distance) sum = join(other, sum);
    }
    const T shifted = k_shuffle_up(sum, 1, kLanes);
    x[k] = lane == 0 ? none : shifted;
    all[k] = k_shuffle_from(sum, kLanes - 1, kLanes);
  }
}
// Tiles of a row follow one another; each thread has one element of each. `x`
// becomes what `from`, the tiles before and the threads before this one in its
// row have, joined in their order. Returns what `from` and all tiles have.
template <int kRow, int kThreads, int kTiles, class T, class F>
K_FN T k_scan(T (&x)[kTiles], T from, T none, F join) {
  enum { kWarps = kRow < 32 ? 1 : kRow / 32 };
  T all[kTiles];
  k_scan_lanes<kRow / kWarps>(x, all, none, join);
  if constexpr (kWarps > 1) {
    __shared__ T parts[kTiles][kThreads / 32];
    const int warp = (int)threadIdx.x / 32, first = warp / kWarps * kWarps;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int k = 0; k < kTiles; ++k) parts[k][warp] = all[k];
    }
    __syncthreads();
    T part[kTiles];
#pragma unroll
    for (int k = 0; k < kTiles; ++k) part[k] = parts[k][first + (int)threadIdx.x % kWarps];
    k_scan_lanes<kWarps>(part, all, none, join);
#pragma unroll
    for (int k = 0; k < kTiles; ++k) x[k] = join(k_shuffle_from(part[k], warp - first, kWarps), x[k]);
  }
  T total = from;
#pragma unroll
  for (int k = 0; k < kTiles; ++k) {
    x[k] = join(total, x[k]);
    total = join(total, all[k]);
  }
  return total;
}
)"},

    // --- Scans that blocks share. `counters` holds a ticket counter, the number of
    // blocks that are done, and a flag for each block; all are zero before the
    // kernel and after it.

    // The number of this block in the order in which blocks begin. A block may wait
    // for those with lower numbers: they are running or done.
    {"k_ticket", "", R"(K_FN unsigned k_ticket(unsigned* counters) {
  __shared__ unsigned number;
  if (threadIdx.x == 0) number = atomicAdd(counters, 1u);
  __syncthreads();
  return number;
}
)"},
    // Tells other blocks that what this thread has written is there.
    {"k_raise", "", R"(K_FN void k_raise(unsigned* flag) {
  __threadfence();
  *(volatile unsigned*)flag = 1u;
}
)"},
    // The totals of the parts before `part`, joined: each thread takes every
    // kThreads-th of them in order, then the threads are joined. The result depends
    // on `part` and the totals alone, not on which block came first.
    {"k_parts_before", "", R"(/* k_across */
template <int kThreads, class T, class F>
K_FN T k_parts_before(const T* totals, const unsigned* flags, unsigned part, T none, F join) {
  T sum = none;
  for (unsigned p = threadIdx.x; p < part; p += kThreads) {
    while (*(const volatile unsigned*)(flags + p) == 0u) {
    }
    __threadfence();
    sum = join(sum, *(const volatile T*)(totals + p));
  }
  return k_across<kThreads, kThreads>(sum, join);
}
)"},
    // The same for columns side by side: `totals` are the column's own, and kDown
    // threads below one another share the parts before.
    {"k_column_before", "", R"(/* k_down */
template <int kAcross, int kDown, class T, class F>
K_FN T k_column_before(const T* totals, const unsigned* flags, unsigned part, T none, F join) {
  T sum[1] = {none};
  for (unsigned p = threadIdx.x / kAcross; p < part; p += kDown) {
    while (*(const volatile unsigned*)(flags + p) == 0u) {
    }
    __threadfence();
    sum[0] = join(sum[0], *(const volatile T*)(totals + p));
  }
  __shared__ T parts[kAcross * kDown];
  k_down<kAcross, kDown>(parts, sum, join);
  return sum[0];
}
)"},
    // --- Tallies.

    // The lanes of the warp that have the same value, of kBits bits.
    {"k_same", "", R"(template <int kBits>
K_FN unsigned k_same(int value) {
  unsigned same = 0xffffffffu;
#pragma unroll
  for (int b = 0; b < kBits; ++b) {
    const bool set = (value >> b & 1) != 0;
    const unsigned with = __ballot_sync(0xffffffffu, set);
    same &= set ? with : ~with;
  }
  return same;
}
)"},
    // How many the warp has had before of this lane's value, lanes in order. `counts`:
    // the warp's own, which go on. `same`: the lanes that have the value.
    {"k_rank", "",
     R"(K_FN unsigned k_rank(unsigned* counts, int value, unsigned same) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned before = counts[value];
  __syncwarp();
  if (same >> lane == 1u) counts[value] = before + (unsigned)__popc(same);
  __syncwarp();
  return before + (unsigned)__popc(same & ((1u << lane) - 1u));
}
)"},
    // The same if only lanes that are live count.
    {"k_tally", "", R"(/* k_same k_rank */
template <int kBits>
K_FN unsigned k_tally(unsigned* counts, int value, bool live) {
  return k_rank(counts, value, k_same<kBits>(value) & __ballot_sync(0xffffffffu, live));
}
)"},
    // The counts of each warp become those of the warps before it. What all have of
    // the thread's value; 0 for threads that have none.
    {"k_tally_warps", "", R"(template <int kWarps, int kValues>
K_FN unsigned k_tally_warps(unsigned* counts) {
  unsigned total = 0u;
  if (threadIdx.x < kValues) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      unsigned* const cell = counts + w * kValues + threadIdx.x;
      const unsigned own = *cell;
      *cell = total;
      total += own;
    }
  }
  return total;
}
)"},
    // What the tiles of the row before this one have of the thread's value. `cells`
    // holds the counts of each block, then their sums with those before it; a flag
    // is 1 when the counts are there, and 2 when the sums are.
    {"k_tallies_before", "", R"(template <int kValues>
K_FN unsigned k_tallies_before(unsigned* cells, unsigned* flags, unsigned block, unsigned tile, unsigned total) {
  const bool mine = threadIdx.x < kValues;
  volatile unsigned* const own = cells + (unsigned long long)block * (2 * kValues) + threadIdx.x;
  const unsigned lane = threadIdx.x % 32;
  unsigned before = 0u;
  if (tile > 0u) {
    if (mine) own[0] = total;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *(volatile unsigned*)(flags + block) = 1u;
    for (unsigned left = tile; left > 0u;) {
      // The 32 nearest of those that are left, the nearest first.
      unsigned first, missing;
      do {
        const unsigned flag = lane < left ? *(volatile unsigned*)(flags + block - 1u - lane - (tile - left)) : 2u;
        first = (unsigned)__ffs((int)__ballot_sync(0xffffffffu, flag == 2u)) - 1u;
        missing = __ballot_sync(0xffffffffu, flag == 0u) & (first < 32u ? (1u << first) - 1u : 0xffffffffu);
      } while (missing != 0u);
      __threadfence();
      const unsigned taken = first < 32u ? first : 32u;
      volatile unsigned* cell = own - (unsigned long long)(tile - left + 1u) * (2 * kValues);
      for (unsigned k = 0; k < taken; ++k, cell -= 2 * kValues)
        if (mine) before += cell[0];
      if (first < 32u) {
        if (mine && first < left) before += cell[kValues];
        break;
      }
      left -= 32u;
    }
  }
  if (mine) own[kValues] = before + total;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *(volatile unsigned*)(flags + block) = 2u;
  return before;
}
)"},
    // Ends a block. The last of all blocks sets the counters back to zero.
    {"k_leave", "", R"(/* k_last_block */
template <int kThreads>
K_FN void k_leave(unsigned* counters, unsigned blocks) {
  if (!k_last_block(counters + 1, blocks)) return;
  for (unsigned b = threadIdx.x; b < blocks; b += kThreads) counters[2 + b] = 0u;
  if (threadIdx.x == 0) counters[0] = 0u;
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaPreludeScans() { return kParts; }

}  // namespace kiln

#include "compiler/codegen/cuda_prelude_scans.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    {"k_scan", "",
     R"(// What the threads before this one in its row have, joined in their order; `all`:
// what all kRow of them have.
template <int kRow, int kThreads, class T, class F>
K_FN T k_scan(T x, T none, T& all, F join) {
  enum { kLanes = kRow < 32 ? kRow : 32 };
  const int lane = (int)threadIdx.x % kLanes;
  T sum = x;
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, sum, distance, kLanes);
    if (lane >= distance) sum = join(other, sum);
  }
  const T shifted = __shfl_up_sync(0xffffffffu, sum, 1, kLanes);
  T before = lane == 0 ? none : shifted;
  all = __shfl_sync(0xffffffffu, sum, kLanes - 1, kLanes);
  if constexpr (kRow > 32) {
    __shared__ T parts[kThreads / 32];
    const int warp = (int)threadIdx.x / 32, first = (int)threadIdx.x / kRow * (kRow / 32);
    __syncthreads();
    if (lane == 0) parts[warp] = all;
    __syncthreads();
    T mine = none, total = none;
#pragma unroll
    for (int w = 0; w < kRow / 32; ++w) {
      if (first + w == warp) mine = total;
      total = join(total, parts[first + w]);
    }
    before = join(mine, before);
    all = total;
  }
  return before;
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

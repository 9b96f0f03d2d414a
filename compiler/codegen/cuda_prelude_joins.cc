#include "compiler/codegen/cuda_prelude_joins.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // A value and where it stands.
    {"k_pair", "", R"(template <class T, class I>
struct k_pair {
  T value;
  I index;
};
)"},
    // The first of equals, NaN before all.
    {"k_argmax", "", R"(template <class T, class I>
K_FN void k_argmax(T& a, I& i, T b, I j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (an == bn ? b > a || ((b == a || an) && first) : bn) a = b, i = j;
}
)"},
    {"k_argmin", "", R"(template <class T, class I>
K_FN void k_argmin(T& a, I& i, T b, I j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (an == bn ? b < a || ((b == a || an) && first) : bn) a = b, i = j;
}
)"},
    // The same for positions that only grow.
    {"k_argmax_next", "", R"(template <class T, class I>
K_FN void k_argmax_next(T& a, I& i, T b, I j) {
  if (i > j || (!(b <= a) && a == a)) a = b, i = j;
}
)"},
    {"k_argmin_next", "", R"(template <class T, class I>
K_FN void k_argmin_next(T& a, I& i, T b, I j) {
  if (i > j || (!(b >= a) && a == a)) a = b, i = j;
}
)"},

    // The greatest, and the sum of exp(x - greatest), as values come.
    {"k_softmax", "", R"(struct k_softmax {
  float max, sum;
};
)"},
    {"k_softmax_next", "", R"(/* k_softmax k_maximum_f32 k_inf_f32 */
K_FN void k_softmax_next(k_softmax& a, float x) {
  const float apart = x - a.max;
  const float less = expf(-fabsf(apart));
  if (x != -k_inf_f32() || a.max != -k_inf_f32()) a.sum = apart > 0 ? a.sum * less + 1.0f : a.sum + less;
  a.max = k_maximum_f32(a.max, x);
}
)"},
    {"k_softmax_group", "", R"(/* k_softmax k_maximum_f32 k_inf_f32 */
template <int V>
K_FN void k_softmax_group(k_softmax& a, const float (&x)[V]) {
  float max = a.max;
#pragma unroll
  for (int e = 0; e < V; ++e) max = k_maximum_f32(max, x[e]);
  if (max == -k_inf_f32()) return;
  float sum = a.sum * k_exp2(1.4426950409f * (a.max - max));
#pragma unroll
  for (int e = 0; e < V; ++e) sum += k_exp2(1.4426950409f * (x[e] - max));
  a = {max, sum};
}
)"},
    // Within 2 ulp, and 1 ulp for each 2^22 of its argument's magnitude.
    {"k_softmax_join", "", R"(/* k_softmax k_maximum_f32 k_inf_f32 */
K_FN k_softmax k_softmax_join(k_softmax a, k_softmax b) {
  const float max = k_maximum_f32(a.max, b.max);
  if (max == -k_inf_f32()) return {max, 0.0f};
  return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}
)"},
    // A row of -infinity has no sum.
    {"k_softmax_sum", "", R"(/* k_softmax k_inf_f32 k_nan_f32 */
K_FN float k_softmax_sum(k_softmax a) { return a.max == -k_inf_f32() ? k_nan_f32() : a.sum; }
)"},
    // log(exp(a) + exp(b)).
    {"k_logaddexp_$T", "f32 f64", R"(K_FN $C k_logaddexp_$T($C a, $C b) {
  const $C apart = a == b ? ($C)0 : a > b ? b - a : a - b;
  return k_maximum_$T(a, b) + log1p$S(exp$S(apart));
}
)"},
    // Mean and squared differences of n values.
    {"k_moments", "", R"(struct k_moments {
  float mean, squares, n;
};
)"},
    // The same while values come, as differences from the first of a block, whose
    // sums are joined at its end (Chan, Golub, LeVeque).
    {"k_moments_run", "", R"(/* k_moments */
struct k_moments_run {
  k_moments all;
  float first, sum, sum_of_squares, count;
};
)"},
    {"k_moments_next", "", R"(/* k_moments_run k_inf_f32 */
K_FN void k_moments_next(k_moments_run& a, float x) {
  if (a.count == 0.0f) a.first = fabsf(x) < k_inf_f32() ? x : 0.0f;
  const float apart = x - a.first;
  a.sum += apart;
  a.sum_of_squares = fmaf(apart, apart, a.sum_of_squares);
  a.count += 1.0f;
}
)"},
    // Counts are whole numbers: their ratio needs no case of its own, and a step of
    // Newton's brings it within 1 ulp.
    {"k_moments_join", "", R"(/* k_moments k_near_inverse */
K_FN k_moments k_moments_join(k_moments a, k_moments b) {
  const float n = a.n + b.n;
  if (n == 0.0f) return {};
  const float inverse = k_near_inverse(n);
  const auto share = [&](float part) {
    const float near = part * inverse;
    return fmaf(fmaf(-near, n, part), inverse, near);
  };
  const float apart = b.mean - a.mean, of_b = share(b.n);
  return {a.mean * share(a.n) + b.mean * of_b, a.squares + b.squares + apart * apart * a.n * of_b, n};
}
)"},
    {"k_moments_end_block", "",
     R"(/* k_moments_run k_moments_join k_maximum_f32 */
K_FN void k_moments_end_block(k_moments_run& a) {
  if (a.count == 0.0f) return;
  const float mean = a.sum / a.count;
  const k_moments block = {a.first + mean, k_maximum_f32(fmaf(-mean, a.sum, a.sum_of_squares), 0.0f), a.count};
  a = {k_moments_join(a.all, block), 0.0f, 0.0f, 0.0f, 0.0f};
}
)"},
    {"k_moments_end", "", R"(/* k_moments_end_block */
K_FN k_moments k_moments_end(k_moments_run& a) {
  k_moments_end_block(a);
  return a.all;
}
)"},

    // Joins over threads, always in the same order.
    {"k_shuffle", "", R"(/* k_pair k_softmax k_moments */
template <class T>
K_FN T k_shuffle(T x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
K_FN bool k_shuffle(bool x, int distance) { return __shfl_xor_sync(0xffffffffu, (int)x, distance) != 0; }
K_FN unsigned char k_shuffle(unsigned char x, int distance) { return (unsigned char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN signed char k_shuffle(signed char x, int distance) { return (signed char)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN short k_shuffle(short x, int distance) { return (short)__shfl_xor_sync(0xffffffffu, (int)x, distance); }
K_FN k_softmax k_shuffle(k_softmax x, int distance) { return {k_shuffle(x.max, distance), k_shuffle(x.sum, distance)}; }
K_FN k_moments k_shuffle(k_moments x, int distance) { return {k_shuffle(x.mean, distance), k_shuffle(x.squares, distance), k_shuffle(x.n, distance)}; }
template <class T, class I>
K_FN k_pair<T, I> k_shuffle(k_pair<T, I> x, int distance) { return {k_shuffle(x.value, distance), k_shuffle(x.index, distance)}; }
)"},
    // Whether a join takes so much code that it should be written once.
    {"k_long_join", "", R"(/* k_softmax k_moments */
template <class T> struct k_long_join { enum { kIs = 0 }; };
template <> struct k_long_join<k_softmax> { enum { kIs = 1 }; };
template <> struct k_long_join<k_moments> { enum { kIs = 1 }; };
)"},
    {"k_across", "",
     R"(// Over the kRow neighbouring threads of a row; all of them get the result. Where
// several warps have a long row, a long join is written once.
template <int kRow, int kThreads, class T, class F>
K_FN T k_across(T x, F join) {
  enum { kUnroll = kRow > 32 && k_long_join<T>::kIs ? 1 : 32 };
#pragma unroll (kUnroll)
  for (int distance = (kRow < 32 ? kRow : 32) / 2; distance > 0; distance /= 2)
    x = join(x, k_shuffle(x, distance));
  if constexpr (kRow > 32) {
    __shared__ T parts[kThreads / 32];
    const int warp = (int)threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) parts[warp] = x;
    __syncthreads();
    // Each warp of the row joins the parts of all: as many as a power of two.
    x = parts[(int)threadIdx.x / kRow * (kRow / 32) + (int)threadIdx.x % (kRow / 32)];
#pragma unroll (kUnroll)
    for (int distance = kRow / 64; distance > 0; distance /= 2)
      x = join(x, k_shuffle(x, distance));
  }
  return x;
}
)"},
    {"k_cluster_sync", "", R"(K_FN void k_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
)"},
    // Over the blocks of a cluster, in their order. Each block's threads bring the
    // block's value. No block may end, or come here again for the same join, before
    // another k_cluster_sync.
    {"k_across_cluster", "", R"(/* k_cluster_sync */
template <int kBlocks, class T, class F>
K_FN T k_across_cluster(T x, F join) {
  enum { kWords = (int)(sizeof(T) + 3) / 4 };
  __shared__ __align__(8) unsigned part[kWords];
  if (threadIdx.x == 0) *(T*)part = x;
  k_cluster_sync();
  const unsigned here = (unsigned)__cvta_generic_to_shared(part);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(b));
    alignas(8) unsigned words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(words[i]) : "r"(there + 4 * i) : "memory");
    x = b == 0 ? *(T*)words : join(x, *(T*)words);
  }
  return x;
}
)"},
    {"k_down", "",
     R"(// Over the kRows threads below one another; all of them get the results.
// `shared` has room for V values a thread.
template <int kColumns, int kRows, class T, int V, class F>
K_FN void k_down(void* shared, T (&x)[V], F join) {
  enum { kUnroll = kRows > 8 || k_long_join<T>::kIs ? 1 : 8 };
  if constexpr (kRows > 1) {
    T* parts = (T*)shared;
    enum { kThreads = kColumns * kRows };
#pragma unroll
    for (int e = 0; e < V; ++e) parts[e * kThreads + threadIdx.x] = x[e];
#pragma unroll (kUnroll)
    for (int rows = kRows / 2; rows > 0; rows /= 2) {
      __syncthreads();
      if (threadIdx.x < rows * kColumns) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          T* p = parts + e * kThreads + threadIdx.x;
          *p = join(*p, p[rows * kColumns]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < V; ++e) x[e] = parts[e * kThreads + threadIdx.x % kColumns];
    __syncthreads();
  }
}
)"},
    {"k_realign", "",
     R"(// Of kSide threads side by side, each with V values that stand `shift` places before
// its own: gives them to the threads whose places they have. The last one keeps its.
// `shared` has room for V values a thread.
template <int kSide, class T, int V>
K_FN void k_realign(void* shared, T (&x)[V], int shift) {
  T* row = (T*)shared + (int)threadIdx.x / kSide * (kSide * V);
  const int first = (int)threadIdx.x % kSide * V;
#pragma unroll
  for (int e = 0; e < V; ++e)
    if (first + e >= shift) row[first + e - shift] = x[e];
  __syncthreads();
  if (first < (kSide - 1) * V) {
#pragma unroll
    for (int e = 0; e < V; ++e) x[e] = row[first + e];
  }
  __syncthreads();
}
)"},
    // V values side by side, in accesses of up to 16 bytes.
    {"k_keep", "", R"(/* k_words */
template <class T, int N> struct __attribute__((aligned(N * sizeof(T)))) k_wide { T x[N]; };
template <int V, class T>
K_FN void k_keep(T* to, const T* from) {
  enum { kStep = V * (int)sizeof(T) < 16 ? V : 16 / (int)sizeof(T) };
#pragma unroll
  for (int i = 0; i < V; i += kStep) {
    k_wide<T, kStep> w;
#pragma unroll
    for (int j = 0; j < kStep; ++j) w.x[j] = from[i + j];
    *(k_wide<T, kStep>*)(to + i) = w;
  }
}
)"},
    // The sum of a cell and those below it, in order.
    {"k_add_rows", "", R"(template <int ROWS, class T>
K_FN T k_add_rows(const T* cells, int row) {
  T sum = cells[0];
#pragma unroll
  for (int r = 1; r < ROWS; ++r) sum += cells[r * row];
  return sum;
}
)"},
    // Whether this block is the last of `parts` that count up `counter`, which is
    // 0 before the first and after the last. Writes of all of them are seen then.
    {"k_last_block", "",
     R"(K_FN bool k_last_block(unsigned* counter, unsigned parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(counter, parts - 1) == parts - 1;
  __syncthreads();
  __threadfence();
  return last;
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CudaJoins() { return kParts; }

}  // namespace kiln

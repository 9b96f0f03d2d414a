#include "compiler/codegen/cpu_prelude_lanes.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    // Which lanes are meant, a bit each.
    {"k_lane_bits", "", R"(typedef unsigned short k_lane_bits;
)"},
    {"k_first_lanes", "",
     R"(K_FN k_lane_bits k_first_lanes(int m) { return (k_lane_bits)((1u << m) - 1); }
)"},
    {"k_bits", "", R"(K_FN k_lane_bits k_bits(kv_b c) {
#ifdef __AVX512DQ__
  return (k_lane_bits)__builtin_ia32_cvtd2mask512(c);
#else
  typedef float floats __attribute__((vector_size(sizeof(c))));
#ifdef __AVX__
  return (k_lane_bits)__builtin_ia32_movmskps256((floats)c);
#else
  return (k_lane_bits)__builtin_ia32_movmskps((floats)c);
#endif
#endif
}
)"},
    // What AVX-512's intrinsics load and store under a mask.
    {"k_masked", "", R"(#if defined(__AVX512BW__) && defined(__AVX512VL__)
struct k_masked {
  typedef float floats __attribute__((vector_size(64)));
  typedef double doubles __attribute__((vector_size(64)));
  typedef short shorts __attribute__((vector_size(32)));
  typedef char chars __attribute__((vector_size(16)));
#ifdef __clang__
  typedef shorts at_shorts;
  typedef chars at_chars;
#else
  typedef short at_shorts;
  typedef char at_chars;
#endif
};
#endif
)"},
    // Some lanes of what stands at `p`, the others 0: no other memory is touched.
    {"k_load_some", "", R"(template <class V, class T>
static __attribute__((noinline)) void k_load_each(const T* p, unsigned due, T* to) {
  for (int l = 0; l < K_LANES; ++l)
    if (due >> l & 1) to[l] = p[l];
}
template <class V, class T>
K_FN V k_load_some(const T* p, k_lane_bits due) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 4) {
    return (V)__builtin_ia32_loadups512_mask((const float*)p, k_masked::floats{}, due);
  } else if constexpr (sizeof(T) == 8) {
    const k_masked::doubles part[2] = {__builtin_ia32_loadupd512_mask((const double*)p, k_masked::doubles{}, (unsigned char)due),
                             __builtin_ia32_loadupd512_mask((const double*)p + 8, k_masked::doubles{}, (unsigned char)(due >> 8))};
    V v;
    __builtin_memcpy(&v, part, sizeof(v));
    return v;
  } else if constexpr (sizeof(T) == 2) {
    return (V)__builtin_ia32_loaddquhi256_mask((const k_masked::at_shorts*)p, k_masked::shorts{}, due);
  } else {
    return (V)__builtin_ia32_loaddquqi128_mask((const k_masked::at_chars*)p, k_masked::chars{}, due);
  }
#else
  T part[K_LANES] = {};
  k_load_each<V>(p, due, part);
  V v;
  __builtin_memcpy(&v, part, sizeof(v));
  return v;
#endif
}
)"},
    {"k_store_some", "", R"(template <class T>
static __attribute__((noinline)) void k_store_each(T* p, unsigned due, const T* from) {
  for (int l = 0; l < K_LANES; ++l)
    if (due >> l & 1) p[l] = from[l];
}
template <class V, class T>
K_FN void k_store_some(T* p, V v, k_lane_bits due) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (sizeof(T) == 4) {
    __builtin_ia32_storeups512_mask((float*)p, (k_masked::floats)v, due);
  } else if constexpr (sizeof(T) == 8) {
    k_masked::doubles part[2];
    __builtin_memcpy(part, &v, sizeof(v));
    __builtin_ia32_storeupd512_mask((double*)p, part[0], (unsigned char)due);
    __builtin_ia32_storeupd512_mask((double*)p + 8, part[1], (unsigned char)(due >> 8));
  } else if constexpr (sizeof(T) == 2) {
    __builtin_ia32_storedquhi256_mask((k_masked::at_shorts*)p, (k_masked::shorts)v, due);
  } else {
    __builtin_ia32_storedquqi128_mask((k_masked::at_chars*)p, (k_masked::chars)v, due);
  }
#else
  T part[K_LANES];
  __builtin_memcpy(part, &v, sizeof(v));
  k_store_each(p, due, part);
#endif
}
)"},
    // Every other element: two vectors, the second of which ends with the last one.
    {"k_load_pairs", "", R"(template <class V, class T, int... I>
K_FN V k_first_of_pairs(const T* p, int m, k_lanes<I...>) {
  V a, b;
  if (__builtin_expect(m == K_LANES, 1)) {
    __builtin_memcpy(&a, p, sizeof(a));
    __builtin_memcpy(&b, p + K_LANES - 1, sizeof(b));
  } else {
    const int all = 2 * m - 1;
    a = k_load_some<V>(p, k_first_lanes(all < K_LANES ? all : K_LANES));
    b = k_load_some<V>(p + K_LANES - 1, k_first_lanes(all < K_LANES ? 0 : all - K_LANES + 1));
  }
  return __builtin_shufflevector(a, b, (2 * I < K_LANES ? 2 * I : 2 * I + 1)...);
}
template <class V, class T>
K_FN V k_load_pairs(const T* p, int m) { return k_first_of_pairs<V>(p, m, k_all_lanes()); }
)"},
    // Some of the elements that stand `step` apart, the others 0.
    {"k_load_strided", "", R"(template <class V, class T>
K_FN V k_load_strided(const T* p, int step, k_lane_bits due) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) {
    typedef float floats __attribute__((vector_size(64)));
    typedef int ints __attribute__((vector_size(64)));
    return (V)__builtin_ia32_gathersiv16sf(floats{}, (const float*)p, (ints)(k_number() * step), due, 4);
  }
#endif
  T part[K_LANES] = {};
  for (int l = 0; l < K_LANES; ++l)
    if (due >> l & 1) part[l] = p[(long long)l * step];
  V v;
  __builtin_memcpy(&v, part, sizeof(v));
  return v;
}
)"},
    // The larger value, NaN above all; of equals the smaller index.
    {"k_argmax_$T", "i32 i64 f32 f64",
     R"(K_FN void k_argmax_$T($C& a, long long& i, $C b, long long j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (b > a || (b == a && first) || (bn && (!an || first))) a = b, i = j;
}
K_FN void k_argmax_$T(kv_$T& a, kv_i64& i, kv_$T b, kv_i64 j, int m) {
  const kv_b an = k_mask(a != a), bn = k_mask(b != b), first = k_mask(j < i);
  const kv_b take = (k_mask(b > a) | (k_mask(b == a) & first) | (bn & (~an | first))) & k_mask(k_number() < m);
  a = k_where(take, b, a);
  i = k_where(take, j, i);
}
)"},
    {"k_argmin_$T", "i32 i64 f32 f64",
     R"(K_FN void k_argmin_$T($C& a, long long& i, $C b, long long j) {
  const bool an = a != a, bn = b != b, first = j < i;
  if (b < a || (b == a && first) || (bn && (!an || first))) a = b, i = j;
}
K_FN void k_argmin_$T(kv_$T& a, kv_i64& i, kv_$T b, kv_i64 j, int m) {
  const kv_b an = k_mask(a != a), bn = k_mask(b != b), first = k_mask(j < i);
  const kv_b take = (k_mask(b < a) | (k_mask(b == a) & first) | (bn & (~an | first))) & k_mask(k_number() < m);
  a = k_where(take, b, a);
  i = k_where(take, j, i);
}
)"},
    // The same of values that come in the order of their places, K_LANES neighbours
    // at a time. `i` holds the place of the first neighbour, so that 32 bits do
    // beside a float; at first `a` is the worst value and `i` the first place.
    {"k_argmax_next", "",
     R"(template <class V, class I, class J>
K_FN void k_argmax_next(V& a, I& i, V b, J j, int m) {
  auto stays = (b <= a) | (a != a);
  if (__builtin_expect(m != K_LANES, 0))
    stays |= __builtin_convertvector(k_number(), decltype(a == a)) >= m;
  a = stays ? a : b;
  i = stays ? i : I{} + j;
}
)"},
    // Of `count` vectors that were kept side by side, whose lanes are neighbours.
    {"k_argmax_of", "",
     R"(template <class T, class V, class I>
K_FN void k_argmax_of(T& x, long long& y, const V* a, const I* i, int count) {
  V top = a[0];
  for (int u = 1; u < count; ++u) top = (top > a[u]) | (top != top) ? top : a[u];
  x = top[0];
  for (int l = 1; l < K_LANES; ++l) x = x > top[l] || x != x ? x : top[l];
  const I lane = __builtin_convertvector(k_number(), I);
  const auto odd = (V{} + x) != x;
  typedef decltype(+i[0][0]) Place;
  I first = I{} + (Place)(~0ull >> (65 - 8 * sizeof(Place)));
  for (int u = 0; u < count; ++u) {
    const I at = i[u] + lane;
    first = ((a[u] == x) | (odd & (a[u] != a[u]))) & (at < first) ? at : first;
  }
  y = first[0];
  for (int l = 1; l < K_LANES; ++l) y = k_least(y, first[l]);
}
)"},
    {"k_argmin_next", "",
     R"(template <class V, class I, class J>
K_FN void k_argmin_next(V& a, I& i, V b, J j, int m) {
  auto stays = (b >= a) | (a != a);
  if (__builtin_expect(m != K_LANES, 0))
    stays |= __builtin_convertvector(k_number(), decltype(a == a)) >= m;
  a = stays ? a : b;
  i = stays ? i : I{} + j;
}
)"},
    {"k_argmin_of", "",
     R"(template <class T, class V, class I>
K_FN void k_argmin_of(T& x, long long& y, const V* a, const I* i, int count) {
  V top = a[0];
  for (int u = 1; u < count; ++u) top = (top < a[u]) | (top != top) ? top : a[u];
  x = top[0];
  for (int l = 1; l < K_LANES; ++l) x = x < top[l] || x != x ? x : top[l];
  const I lane = __builtin_convertvector(k_number(), I);
  const auto odd = (V{} + x) != x;
  typedef decltype(+i[0][0]) Place;
  I first = I{} + (Place)(~0ull >> (65 - 8 * sizeof(Place)));
  for (int u = 0; u < count; ++u) {
    const I at = i[u] + lane;
    first = ((a[u] == x) | (odd & (a[u] != a[u]))) & (at < first) ? at : first;
  }
  y = first[0];
  for (int l = 1; l < K_LANES; ++l) y = k_least(y, first[l]);
}
)"},
    // Numbers of lanes, as arguments of a shuffle.
    {"k_lanes", "", R"(template <int... I> struct k_lanes {};
template <int N, int... I> struct k_upto : k_upto<N - 1, N - 1, I...> {};
template <int... I> struct k_upto<0, I...> { typedef k_lanes<I...> list; };
typedef k_upto<K_LANES>::list k_all_lanes;
)"},
    // Running values of the lanes and of what came before them. `f` joins two; `none`
    // changes nothing. Lanes of eight bytes go in halves, which are registers.
    {"k_scan_lanes", "", R"(template <int H, int N, class V, int... I>
K_FN V k_shift_up(V v, V none, k_lanes<I...>) {
  return __builtin_shufflevector(v, none, (I < H ? I + N : I - H)...);
}
template <int H, int N, class V, class F>
K_FN V k_scan_steps(V v, V none, F f) {
  if constexpr (H < N)
    return k_scan_steps<2 * H, N>((V)f(k_shift_up<H, N>(v, none, typename k_upto<N>::list()), v), none, f);
  else
    return v;
}
template <int N, class V, class T, class F>
K_FN V k_scan_part(V v, V none, T& before, F f) {
  const V own = k_scan_steps<1, N>(v, none, f);
  const V all = f(before - V{}, own);
  before = f(before, (T)own[N - 1]);
  return all;
}
template <class V, class T, class F>
K_FN V k_scan_lanes(V v, V none, T& before, F f) {
  if constexpr (sizeof(T) == 8) {
    typedef T half __attribute__((vector_size(sizeof(V) / 2)));
    half part[2], nothing;
    __builtin_memcpy(part, &v, sizeof(v));
    __builtin_memcpy(&nothing, &none, sizeof(nothing));
    part[0] = k_scan_part<K_LANES / 2>(part[0], nothing, before, f);
    part[1] = k_scan_part<K_LANES / 2>(part[1], nothing, before, f);
    __builtin_memcpy(&v, part, sizeof(v));
    return v;
  } else {
    return k_scan_part<K_LANES>(v, none, before, f);
  }
}
)"},
    // Running logarithms of sums of exponentials, and what is carried: the greatest
    // term, and the sum relative to it. k_logaddexp joins two logarithms.
    {"k_lse_$T", "f32 f64",
     R"(/* k_maximum_$T k_exp_$T k_log_$T */
struct k_lse_$T {
  $C max;
  double sum;
};
K_FN kv_$T k_scan_lse(kv_$T x, k_lse_$T& before) {
  kv_$T max = x, last = x;
  for (int l = 0; l < K_LANES; ++l) {
    last[l] = l == 0 ? before.max : max[l - 1];
    max[l] = k_maximum_$T(last[l], x[l]);
  }
  const kv_$T none = {};
  const kv_$T less = k_exp_$T(last == max ? none : last - max);
  const kv_$T own = k_exp_$T(x == max ? none : x - max);
  kv_$T sums = none;
  for (int l = 0; l < K_LANES; ++l) {
    before.sum = before.sum * less[l] + own[l];
    sums[l] = ($C)before.sum;
  }
  before.max = max[K_LANES - 1];
  return max + k_log_$T(sums);
}
)"},
    {"k_logaddexp_$T", "f32 f64", R"(/* k_maximum_$T k_exp_$T k_log1p_$T */
K_FN $C k_logaddexp_$T($C a, $C b) { return k_maximum_$T(a, b) + k_log1p_$T(k_exp_$T(a == b ? ($C)0 : a > b ? b - a : a - b)); }
K_FN kv_$T k_logaddexp_$T(kv_$T a, kv_$T b) {
  const kv_$T none = {};
  const kv_$T apart = a > b ? b - a : a - b;
  return k_maximum_$T(a, b) + k_log1p_$T(k_exp_$T(a == b ? none : apart));
}
)"},
    // A square of K_LANES vectors: halves of it change places, then quarters, ...
    {"k_transpose", "", R"(template <int H, class V, int... I>
K_FN void k_swap_blocks(V& a, V& b, k_lanes<I...>) {
  const V c = __builtin_shufflevector(a, b, ((I & H) == 0 ? I : I - H + K_LANES)...);
  b = __builtin_shufflevector(a, b, ((I & H) == 0 ? I + H : I + K_LANES)...);
  a = c;
}
template <int H, class V>
K_FN void k_transpose(V* x) {
  if constexpr (H > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < K_LANES; ++i)
      if ((i & H) == 0) k_swap_blocks<H>(x[i], x[i + H], k_all_lanes());
    k_transpose<H / 2>(x);
  }
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CpuLanesPrelude() { return kParts; }

}  // namespace kiln

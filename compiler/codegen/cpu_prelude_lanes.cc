#include "compiler/codegen/cpu_prelude_lanes.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
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

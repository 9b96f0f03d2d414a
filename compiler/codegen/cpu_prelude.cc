// The CPU's prelude: GNU vectors of K_LANES values, loads and stores of whole
// and cut vectors, integer operations. Mathematics stands in
// cpu_prelude_math.cc.

#include "compiler/codegen/cpu_prelude_lanes.h"
#include "compiler/codegen/cpu_prelude_math.h"
#include "compiler/codegen/prelude.h"

namespace kiln {
namespace {

constexpr char kInts[] = "u8 i8 i16 i32 i64";
constexpr char kInMemory[] = "u8 i8 i16 i32 i64 u16 f32 f64";

constexpr PreludePart kParts[] = {
    {"K_LANES", "", R"(enum { K_LANES = $L };
)"},
    {"K_FN", "", R"(#define K_FN static inline __attribute__((always_inline))
)"},
    // The same as proto/kernel_abi.h; a test holds the two together.
    {"KilnBadData", "", R"(struct KilnBadData {
  long long found;
  union {
    long long index;
    const char* text;
  };
  long long size;
};
)"},
    {"KilnCpuRuntime", "", R"(struct KilnCpuRuntime {
  long long threads;
  void (*parallel_for)(const KilnCpuRuntime* self, long long count,
                       long long grain,
                       void (*body)(void* context, long long begin,
                                    long long end),
                       void* context);
  KilnBadData* bad_data;
};
)"},
    {"KilnArguments", "", R"(struct KilnArguments {
  void* const* buffers;
  const long long* scalars;
  KilnBadData* bad_data;
};
)"},
    {"k_least", "",
     R"(static inline long long k_least(long long a, long long b) { return a < b ? a : b; }
)"},
    {"k_ceildiv", "",
     R"(static inline long long k_ceildiv(long long a, long long b) { return (a + b - 1) / b; }
)"},
    {"k_share", "",
     R"(static void k_share(const KilnCpuRuntime* runtime, long long items,
                    long long points, long long grain_points,
                    void (*body)(void*, long long, long long), void* context) {
  if (items <= 0) return;
  const long long each = points / items > 0 ? points / items : 1;
  const long long grain = each >= grain_points ? 1 : grain_points / each;
  if (runtime == 0 || runtime->threads <= 1 || items <= grain)
    body(context, 0, items);
  else
    runtime->parallel_for(runtime, items, grain, body, context);
}
)"},
    {"kv_$T", "u8 i8 i16 u16 i32 u32 i64 u64 f32 f64",
     R"(typedef $C kv_$T __attribute__((vector_size(sizeof($C) * K_LANES)));
)"},
    // A bool a lane: 0 or -1.
    {"kv_b", "",
     R"(typedef int kv_b __attribute__((vector_size(sizeof(int) * K_LANES)));
)"},
    {"k_mask", "", R"(template <class M>
K_FN kv_b k_mask(M m) { return __builtin_convertvector(m, kv_b); }
)"},
    {"k_where", "", R"(template <class V>
K_FN V k_where(kv_b c, V a, V b) {
  const auto m = __builtin_convertvector(c, decltype(a == a));
  return m ? a : b;
}
)"},
    {"k_not", "", R"(K_FN bool k_not(bool a) { return !a; }
K_FN kv_b k_not(kv_b a) { return ~a; }
)"},
    {"k_any", "", R"(K_FN bool k_any(kv_b c) {
  long long w[sizeof(c) / sizeof(long long)];
  __builtin_memcpy(w, &c, sizeof(c));
  long long any = 0;
  for (unsigned i = 0; i < sizeof(c) / sizeof(long long); ++i) any |= w[i];
  return any != 0;
}
)"},
    {"k_splat_$T", "u8 i8 i16 u16 i32 i64",
     R"(K_FN kv_$T k_splat_$T($C x) { return x + kv_$T{}; }
)"},
    // Minus zero: so that -0.0 stays what it is.
    {"k_splat_$T", "f32 f64",
     R"(K_FN kv_$T k_splat_$T($C x) { return x - kv_$T{}; }
)"},
    {"k_splat_b", "",
     R"(K_FN kv_b k_splat_b(bool x) { return -(int)x + kv_b{}; }
)"},
    {"k_number", "", R"(K_FN kv_b k_number() {
  kv_b n;
  for (int l = 0; l < K_LANES; ++l) n[l] = l;
  return n;
}
)"},
    // The lanes that are real: m of them.
    {"k_keep", "", R"(template <class V>
K_FN V k_keep(int m, V next, V old) {
  if (__builtin_expect(m == K_LANES, 1)) return next;
  return k_where(k_mask(k_number() < m), next, old);
}
)"},
    {"k_iota_i64", "",
     R"(K_FN kv_i64 k_iota_i64(long long first, long long step) {
  return first + step * __builtin_convertvector(k_number(), kv_i64);
}
)"},
    {"k_iota_i32", "",
     R"(K_FN kv_i32 k_iota_i32(int first, int step) {
  return first + step * __builtin_convertvector(k_number(), kv_i32);
}
)"},
    // The first to come stays; all threads are done before it is read.
    {"k_outside", "",
     R"(static __attribute__((noinline, cold)) void k_outside(KilnBadData* bad, long long i, long long n) {
  if (bad == 0 || __atomic_exchange_n(&bad->found, 1, __ATOMIC_RELAXED) != 0) return;
  bad->index = i;
  bad->size = n;
}
)"},
    {"k_assert", "",
     R"(K_FN bool k_assert(bool holds, const char* text, KilnBadData* bad) {
  if (!holds && bad != 0 && __atomic_exchange_n(&bad->found, 2, __ATOMIC_RELAXED) == 0) bad->text = text;
  return holds;
}
)"},
    {"k_check_index", "",
     R"(K_FN long long k_check_index(long long i, long long n, bool asked, KilnBadData* bad) {
  if (__builtin_expect((unsigned long long)i < (unsigned long long)n, 1)) return i;
  if (asked) k_outside(bad, i, n);
  return 0;
}
)"},
    {"k_wrap_index", "",
     R"(K_FN long long k_wrap_index(long long i, long long n, bool asked, KilnBadData* bad) {
  const long long at = i < 0 ? i + n : i;
  if (__builtin_expect((unsigned long long)at < (unsigned long long)n, 1)) return at;
  if (asked) k_outside(bad, i, n);
  return 0;
}
)"},
    // Lanes that are not real may seem outside: the slow way looks again. The
    // sign of `out` says so: of the index, or of the last one less it.
    {"k_inside_lanes", "",
     R"(static __attribute__((noinline, cold)) void k_outside_lanes(KilnBadData* bad, const long long* i, const long long* n, const long long* out, const int* asked, int m) {
  for (int l = 0; l < m; ++l)
    if (out[l] < 0 && asked[l]) return k_outside(bad, i[l], n[l]);
}
K_FN kv_i64 k_inside_lanes(kv_i64 at, kv_i64 i, kv_i64 n, kv_b asked, int m, KilnBadData* bad) {
  typedef long long half __attribute__((vector_size(sizeof(long long) * K_LANES / 2)));
  const kv_i64 out = at | (n - 1 - at);
  half a, b;
  __builtin_memcpy(&a, &out, sizeof(a));
  __builtin_memcpy(&b, (const char*)&out + sizeof(a), sizeof(b));
  a |= b;
  long long any = 0;
  for (int l = 0; l < K_LANES / 2; ++l) any |= a[l];
  if (__builtin_expect(any >= 0, 1)) return at;
  k_outside_lanes(bad, (const long long*)&i, (const long long*)&n, (const long long*)&out, (const int*)&asked, m);
  return at & ~(out >> 63);
}
)"},
    {"k_check_index_lanes", "",
     R"(K_FN kv_i64 k_check_index_lanes(kv_i64 i, kv_i64 n, kv_b asked, int m, KilnBadData* bad) {
  return k_inside_lanes(i, i, n, asked, m, bad);
}
)"},
    {"k_wrap_index_lanes", "",
     R"(K_FN kv_i64 k_wrap_index_lanes(kv_i64 i, kv_i64 n, kv_b asked, int m, KilnBadData* bad) {
  return k_inside_lanes(i + (n & (i < 0)), i, n, asked, m, bad);
}
)"},
    {"k_load_$T", kInMemory,
     R"(K_FN kv_$T k_load_$T(const $C* p, int m) {
  kv_$T v = {};
  if (__builtin_expect(m == K_LANES, 1))
    __builtin_memcpy(&v, p, sizeof(v));
  else
    v = k_load_some<kv_$T>(p, k_first_lanes(m));
  return v;
}
)"},
    {"k_load_b", "", R"(K_FN kv_b k_load_b(const bool* p, int m) {
  return k_mask(k_load_u8((const unsigned char*)p, m) != kv_u8{});
}
)"},
    {"k_load_masked_$T", kInMemory,
     R"(K_FN kv_$T k_load_masked_$T(const $C* p, int m, kv_b mask, $C fill) {
  const k_lane_bits due = k_bits(mask) & k_first_lanes(m);
  kv_$T v;
  if (due == k_first_lanes(K_LANES))
    __builtin_memcpy(&v, p, sizeof(v));
  else
    v = k_where(mask, k_load_some<kv_$T>(p, due), k_splat_$T(fill));
  return v;
}
)"},
    {"k_load_masked_b", "",
     R"(K_FN kv_b k_load_masked_b(const bool* p, int m, kv_b mask, bool fill) {
  return k_mask(k_load_masked_u8((const unsigned char*)p, m, mask, fill) != kv_u8{});
}
)"},
    {"k_store_$T", kInMemory,
     R"(K_FN void k_store_$T($C* p, kv_$T v, int m) {
  if (__builtin_expect(m == K_LANES, 1))
    __builtin_memcpy(p, &v, sizeof(v));
  else
    k_store_some(p, v, k_first_lanes(m));
}
)"},
    {"k_store_b", "", R"(K_FN void k_store_b(bool* p, kv_b v, int m) {
  k_store_u8((unsigned char*)p, __builtin_convertvector(v & 1, kv_u8), m);
}
)"},
    {"k_bitcast", "", R"(template <class To, class From>
K_FN To k_bitcast(From x) {
  To y;
  __builtin_memcpy(&y, &x, sizeof(y));
  return y;
}
)"},

    // Half types: bits in an unsigned short. From x86-64-v3 on the processor
    // converts f16, with the same result but for the bits of a NaN.
    {"k_bf16_to_f32", "", R"(K_FN kv_f32 k_bf16_to_f32(kv_u16 x) {
  return (kv_f32)(__builtin_convertvector(x, kv_u32) << 16);
}
K_FN float k_bf16_to_f32(unsigned short x) { return k_bitcast<float>((unsigned)x << 16); }
)"},
    {"k_f32_to_bf16", "", R"(K_FN kv_u16 k_f32_to_bf16(kv_f32 x) {
  const kv_u32 u = (kv_u32)x;
  const kv_u32 r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const kv_b odd = k_mask(x != x);
  return __builtin_convertvector(k_where(odd, kv_u32{} + 0x7fc0u, r), kv_u16);
}
K_FN unsigned short k_f32_to_bf16(float x) {
  const unsigned u = k_bitcast<unsigned>(x);
  return x != x ? 0x7fc0 : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
)"},
    {"k_f16_to_f32", "", R"(#ifdef __F16C__
K_FN kv_f32 k_f16_to_f32(kv_u16 x) {
  typedef short Halves __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(32)));
  kv_f32 r;
  for (int l = 0; l < K_LANES; l += 8) {
    Halves h;
    __builtin_memcpy(&h, (const unsigned short*)&x + l, sizeof h);
    const Floats f = __builtin_ia32_vcvtph2ps256(h);
    __builtin_memcpy((float*)&r + l, &f, sizeof f);
  }
  return r;
}
#else
K_FN kv_f32 k_f16_to_f32(kv_u16 x) {
  const kv_u32 h = __builtin_convertvector(x, kv_u32);
  const kv_u32 magnitude = (h & 0x7fffu) << 13;
  const kv_u32 exponent = magnitude & 0x0f800000u;
  const kv_u32 normal = magnitude + 0x38000000u;
  const kv_u32 large = normal + 0x38000000u;
  const kv_f32 small = (kv_f32)(normal + 0x00800000u) - k_splat_f32(6.103515625e-05f);
  kv_u32 r = k_where(k_mask(exponent == 0x0f800000u), large, normal);
  r = k_where(k_mask(exponent == 0u), (kv_u32)small, r);
  return (kv_f32)(r | (h & 0x8000u) << 16);
}
#endif
K_FN float k_f16_to_f32(unsigned short x) { return k_f16_to_f32(k_splat_u16(x))[0]; }
)"},
    {"k_f32_to_f16", "", R"(#ifdef __F16C__
K_FN kv_u16 k_f32_to_f16(kv_f32 x) {
  typedef short Halves __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(32)));
  kv_u16 r;
  for (int l = 0; l < K_LANES; l += 8) {
    Floats f;
    __builtin_memcpy(&f, (const float*)&x + l, sizeof f);
    const Halves h = __builtin_ia32_vcvtps2ph256(f, 0);
    __builtin_memcpy((unsigned short*)&r + l, &h, sizeof h);
  }
  return r;
}
#else
K_FN kv_u16 k_f32_to_f16(kv_f32 x) {
  const kv_u32 sign = (kv_u32)x & 0x80000000u;
  const kv_u32 f = (kv_u32)x ^ sign;
  const kv_u32 small = (kv_u32)((kv_f32)f + k_splat_f32(0.5f)) - 0x3f000000u;
  const kv_u32 normal = (f + 0xc8000fffu + ((f >> 13) & 1u)) >> 13;
  const kv_u32 large = k_where(k_mask(f > 0x7f800000u), kv_u32{} + 0x7e00u, kv_u32{} + 0x7c00u);
  kv_u32 r = k_where(k_mask(f < 0x38800000u), small, normal);
  r = k_where(k_mask(f >= 0x47800000u), large, r);
  return __builtin_convertvector(r | sign >> 16, kv_u16);
}
#endif
K_FN unsigned short k_f32_to_f16(float x) { return k_f32_to_f16(k_splat_f32(x))[0]; }
)"},

    // Integers. A zero divisor, which lanes beyond the data may hold, gives 0.
    {"k_truncdiv_$T", kInts, R"(K_FN $C k_truncdiv_$T($C a, $C b) {
  return b == 0 ? 0 : b == ($C)-1 ? ($C)(0 - (unsigned long long)a) : a / b;
}
K_FN kv_$T k_truncdiv_$T(kv_$T a, kv_$T b) {
  for (int l = 0; l < K_LANES; ++l) a[l] = k_truncdiv_$T(($C)a[l], ($C)b[l]);
  return a;
}
)"},
    {"k_fmod_$T", kInts, R"(K_FN $C k_fmod_$T($C a, $C b) {
  return b == 0 || b == ($C)-1 ? (b == 0 || b < 0 ? 0 : a % b) : a % b;
}
K_FN kv_$T k_fmod_$T(kv_$T a, kv_$T b) {
  for (int l = 0; l < K_LANES; ++l) a[l] = k_fmod_$T(($C)a[l], ($C)b[l]);
  return a;
}
)"},
    {"k_floordiv_$T", kInts, R"(K_FN $C k_floordiv_$T($C a, $C b) {
  const $C q = k_truncdiv_$T(a, b);
  return k_fmod_$T(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
K_FN kv_$T k_floordiv_$T(kv_$T a, kv_$T b) {
  for (int l = 0; l < K_LANES; ++l) a[l] = k_floordiv_$T(($C)a[l], ($C)b[l]);
  return a;
}
)"},
    {"k_remainder_$T", kInts, R"(K_FN $C k_remainder_$T($C a, $C b) {
  const $C r = k_fmod_$T(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
K_FN kv_$T k_remainder_$T(kv_$T a, kv_$T b) {
  for (int l = 0; l < K_LANES; ++l) a[l] = k_remainder_$T(($C)a[l], ($C)b[l]);
  return a;
}
)"},
    {"k_pow_$T", kInts, R"(K_FN $C k_pow_$T($C a, $C b) {
  if (b < 0) return a == 1 ? 1 : a == ($C)-1 ? (b & 1 ? -1 : 1) : 0;
  unsigned long long r = 1, x = a;
  for (unsigned long long n = b; n != 0; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return ($C)r;
}
K_FN kv_$T k_pow_$T(kv_$T a, kv_$T b) {
  for (int l = 0; l < K_LANES; ++l) a[l] = k_pow_$T(($C)a[l], ($C)b[l]);
  return a;
}
)"},
    {"k_maximum_$T", kInts,
     R"(K_FN $C k_maximum_$T($C a, $C b) { return a > b ? a : b; }
K_FN kv_$T k_maximum_$T(kv_$T a, kv_$T b) { return a > b ? a : b; }
)"},
    {"k_minimum_$T", kInts,
     R"(K_FN $C k_minimum_$T($C a, $C b) { return a < b ? a : b; }
K_FN kv_$T k_minimum_$T(kv_$T a, kv_$T b) { return a < b ? a : b; }
)"},
    {"k_abs_$T", kInts,
     R"(K_FN $C k_abs_$T($C a) { return a < 0 ? ($C)(0 - (unsigned long long)a) : a; }
K_FN kv_$T k_abs_$T(kv_$T a) { return a < kv_$T{} ? -a : a; }
)"},
    {"k_sign_$T", kInts,
     R"(K_FN $C k_sign_$T($C a) { return (a > 0) - (a < 0); }
K_FN kv_$T k_sign_$T(kv_$T a) {
  const auto less = a < kv_$T{}, more = a > kv_$T{};
  return __builtin_convertvector(less - more, kv_$T);
}
)"},
    // Philox4x32-10: key = seed, counter = (quad, stream); 24 bits of each of
    // the four words are the numbers of the elements 4 quad to 4 quad + 3. The
    // upper half of `number` is added to the seed, the lower is the stream
    // (RandomNumber).
    {"k_philox", "",
     R"(K_FN void k_philox(long long seed, unsigned long long quad, unsigned long long number, float* to) {
  const unsigned long long key = (unsigned long long)seed + (number >> 32);
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  unsigned c0 = (unsigned)quad, c1 = (unsigned)(quad >> 32);
  unsigned c2 = (unsigned)number, c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c0, b = 0xCD9E8D57ull * c2;
    const unsigned n0 = (unsigned)(b >> 32) ^ c1 ^ k0;
    const unsigned n2 = (unsigned)(a >> 32) ^ c3 ^ k1;
    c1 = (unsigned)b;
    c3 = (unsigned)a;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  to[0] = (float)(c0 >> 8) * 5.9604644775390625e-08f;
  to[1] = (float)(c1 >> 8) * 5.9604644775390625e-08f;
  to[2] = (float)(c2 >> 8) * 5.9604644775390625e-08f;
  to[3] = (float)(c3 >> 8) * 5.9604644775390625e-08f;
}
)"},
    {"k_random_f32", "",
     R"(K_FN float k_random_f32(long long seed, long long index, unsigned long long number) {
  float quad[4];
  k_philox(seed, (unsigned long long)index >> 2, number, quad);
  return quad[index & 3];
}
K_FN kv_f32 k_random_f32(long long seed, kv_i64 index, unsigned long long number) {
  kv_f32 r;
  const long long first = index[0];
  if ((first & 3) == 0 && index[K_LANES - 1] - first == K_LANES - 1) {
    float row[K_LANES];
    for (int l = 0; l < K_LANES; l += 4) k_philox(seed, (unsigned long long)(first + l) >> 2, number, row + l);
    for (int l = 0; l < K_LANES; ++l) r[l] = row[l];
    return r;
  }
  for (int l = 0; l < K_LANES; ++l) r[l] = k_random_f32(seed, (long long)index[l], number);
  return r;
}
)"},
};

}  // namespace

std::vector<PreludePart> CpuPrelude() {
  std::vector<PreludePart> parts(std::begin(kParts), std::end(kParts));
  for (absl::Span<const PreludePart> more :
       {CpuMathPrelude(), CpuLibmPrelude(), CpuLanesPrelude()})
    parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

}  // namespace kiln

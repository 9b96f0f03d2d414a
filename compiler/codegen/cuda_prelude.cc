// CUDA's prelude: half types by bits and PTX, what C++ has not as its operators.

#include "compiler/codegen/cuda_prelude_accesses.h"
#include "compiler/codegen/cuda_prelude_atomics.h"
#include "compiler/codegen/cuda_prelude_flash.h"
#include "compiler/codegen/cuda_prelude_joins.h"
#include "compiler/codegen/cuda_prelude_scans.h"
#include "compiler/codegen/cuda_prelude_sorts.h"
#include "compiler/codegen/prelude.h"

namespace kiln {
namespace {

constexpr char kInts[] = "u8 i8 i16 i32 i64";

constexpr PreludePart kParts[] = {
    {"K_FN", "", R"(#define K_FN static __device__ __forceinline__
)"},
    // Before all else, by every thread: what kernels before it on the stream
    // have written is seen from here on (PTX ISA, "griddepcontrol").
    {"k_wait_for_work_before", "",
     R"(K_FN void k_wait_for_work_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
)"},
    // Prints and stops the grid: the context ends with "device-side assert". The text
    // is in memory that the driver still reads then. One thread writes it; others
    // wait for the end that it brings. It is written from its end, since that needs
    // least code, which every unit with an index would have built.
    {"k_outside", "",
     R"(extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned int line, const char* function, unsigned long size);
static __device__ unsigned k_outside_met;
static __device__ char k_outside_text[512];
static __device__ __noinline__ char* k_outside_put(char* to, long long number, const char* text) {
  const char* end = text;
#pragma unroll 1
  while (*end != 0 && end < text + 400) ++end;
#pragma unroll 1
  while (end != text) *--to = *--end;
  unsigned long long rest = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
#pragma unroll 1
  do {
    *--to = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (number < 0) *--to = '-';
  return to;
}
[[noreturn]] static __device__ __noinline__ void k_outside(long long i, long long n, const char* operators, const char* kernel) {
  while (atomicCAS(&k_outside_met, 0u, 1u) != 0u) __nanosleep(1000);
  char* to = k_outside_put(k_outside_text + 511, n, operators);
  to = k_outside_put(to, i, " of a dimension of size ");
  to = k_outside_put(to, 0, "index out of bounds: index ") + 1;  // without the 0
  __threadfence();
  __assertfail(to, "kiln", 0, kernel, 1);
  for (;;) __trap();
}
)"},
    {"k_assert", "",
     R"(extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned int line, const char* function, unsigned long size);
static __device__ __noinline__ bool k_assert(bool holds, const char* message, const char* kernel) {
  if (holds) return true;
  __assertfail(message, "kiln", 0, kernel, 1);
  __trap();
  return false;
}
)"},
    {"k_check_index", "",
     R"(K_FN long long k_check_index(long long i, long long n, bool asked, const char* operators, const char* kernel) {
  if ((unsigned long long)i < (unsigned long long)n) return i;
  if (asked) k_outside(i, n, operators, kernel);
  return 0;
}
)"},
    {"k_wrap_index", "",
     R"(K_FN long long k_wrap_index(long long i, long long n, bool asked, const char* operators, const char* kernel) {
  const long long wrapped = i < 0 ? i + n : i;
  if ((unsigned long long)wrapped < (unsigned long long)n) return wrapped;
  if (asked) k_outside(i, n, operators, kernel);
  return 0;
}
)"},
    {"k_round_bf16", "", R"(template <int V>
K_FN k_pack<unsigned short, V> k_round_bf16(const float (&x)[V]) {
  k_pack<unsigned short, V> to = {};
#pragma unroll
  for (int e = 0; e < V; e += 2) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to.x[e / 2]) : "f"(x[e + 1]), "f"(x[e]));
  return to;
}
)"},
    {"k_round_f16", "", R"(template <int V>
K_FN k_pack<unsigned short, V> k_round_f16(const float (&x)[V]) {
  k_pack<unsigned short, V> to = {};
#pragma unroll
  for (int e = 0; e < V; e += 2) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.x[e / 2]) : "f"(x[e + 1]), "f"(x[e]));
  return to;
}
)"},

    // Half types: bits in an unsigned short.
    {"k_bf16_to_f32", "",
     R"(K_FN float k_bf16_to_f32(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
)"},
    {"k_f32_to_bf16", "", R"(K_FN unsigned short k_f32_to_bf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)"},
    {"k_f16_to_f32", "", R"(K_FN float k_f16_to_f32(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
)"},
    {"k_f32_to_f16", "", R"(K_FN unsigned short k_f32_to_f16(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)"},
    {"k_bitcast", "", R"(template <class To, class From>
K_FN To k_bitcast(From x) {
  To y;
  memcpy(&y, &x, sizeof(y));
  return y;
}
)"},

    {"k_inf_f32", "",
     R"(K_FN float k_inf_f32() { return __uint_as_float(0x7f800000u); }
)"},
    {"k_nan_f32", "",
     R"(K_FN float k_nan_f32() { return __uint_as_float(0x7fc00000u); }
)"},
    {"k_inf_f64", "",
     R"(K_FN double k_inf_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
)"},
    {"k_nan_f64", "",
     R"(K_FN double k_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }
)"},
    // Of full range, within 2 ulp (PTX ISA, "div.full", "sqrt.approx").
    {"k_near_divide", "", R"(K_FN float k_near_divide(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
)"},
    // x / c without a branch: rounded once, but within 1 ulp for quotients below
    // 2^-102 (Markstein). `inverse` is 1 / c, rounded; c is from 1 to 2^60.
    {"k_divide_by", "",
     R"(K_FN float k_divide_by(float x, float c, float inverse) {
  const float near = x * inverse, rest = fmaf(-near, c, x);
  return fabsf(rest) > 0.0f ? fmaf(rest, inverse, near) : near;
}
)"},
    // Of numbers from 1 on.
    {"k_near_inverse", "", R"(K_FN float k_near_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
)"},
    // Results below 2^-126 are 0.
    {"k_exp2", "", R"(K_FN float k_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
)"},
    {"k_near_exp", "", R"(/* k_exp2 */
K_FN float k_near_exp(float x) { return k_exp2(x * 1.4426950409f); }
)"},
    {"k_near_sqrt", "", R"(K_FN float k_near_sqrt(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
)"},
    // Its series near 0, where the difference would lose digits.
    {"k_near_tanh", "", R"(/* k_near_inverse k_near_exp */
K_FN float k_near_tanh(float x) {
  const float s = x * x;
  const float series = fmaf(fmaf(fmaf(fmaf(0.021869489f, s, -0.053968254f), s, 0.13333334f), s, -0.33333334f) * s, x, x);
  const float far = fmaf(-2.0f, k_near_inverse(1.0f + k_near_exp(2.0f * x)), 1.0f);
  return fabsf(x) < 0.35f ? series : far;
}
)"},
    // Its series near 0; beyond, Abramowitz and Stegun 7.1.26, within 1.5e-7.
    {"k_near_erf", "", R"(/* k_near_inverse k_near_exp */
K_FN float k_near_erf(float x) {
  const float s = x * x;
  const float series = x * fmaf(fmaf(fmaf(fmaf(0.0052239776f, s, -0.026866171f), s, 0.11283792f), s, -0.37612639f), s, 1.1283792f);
  const float t = k_near_inverse(fmaf(0.3275911f, fabsf(x), 1.0f));
  const float tail = t * fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f);
  const float far = copysignf(fmaf(-tail, k_near_exp(-s), 1.0f), x);
  return fabsf(x) < 0.4f ? series : far;
}
)"},
    // Both values are read first: of `c ? a : b` the compiler would choose between
    // the addresses of two packs, which then stand in memory.
    {"k_where", "", R"(template <class T>
K_FN T k_where(bool c, T a, T b) { return c ? a : b; }
)"},
    {"k_not", "", R"(K_FN bool k_not(bool a) { return !a; }
)"},
    {"k_maximum_f32", "", R"(K_FN float k_maximum_f32(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
)"},
    {"k_minimum_f32", "", R"(K_FN float k_minimum_f32(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
)"},
    {"k_maximum_f64", "",
     R"(K_FN double k_maximum_f64(double a, double b) { return a > b || a != a ? a : b; }
)"},
    {"k_minimum_f64", "",
     R"(K_FN double k_minimum_f64(double a, double b) { return a < b || a != a ? a : b; }
)"},
    {"k_maximum_$T", kInts,
     R"(K_FN $C k_maximum_$T($C a, $C b) { return a > b ? a : b; }
)"},
    {"k_minimum_$T", kInts,
     R"(K_FN $C k_minimum_$T($C a, $C b) { return a < b ? a : b; }
)"},
    {"k_sign_$T", "u8 i8 i16 i32 i64 f32 f64",
     R"(K_FN $C k_sign_$T($C a) { return (a > 0) - (a < 0); }
)"},
    {"k_abs_$T", kInts, R"(K_FN $C k_abs_$T($C a) { return a < 0 ? -a : a; }
)"},
    {"k_isinf_$T", "f32 f64",
     R"(K_FN bool k_isinf_$T($C x) { return fabs$S(x) == k_inf_$T(); }
)"},
    {"k_signbit_f32", "",
     R"(K_FN bool k_signbit_f32(float x) { return __float_as_int(x) < 0; }
)"},
    {"k_signbit_f64", "",
     R"(K_FN bool k_signbit_f64(double x) { return __double_as_longlong(x) < 0; }
)"},
    {"k_truncdiv_$T", kInts,
     R"(K_FN $C k_truncdiv_$T($C a, $C b) { return b == 0 ? 0 : a / b; }
)"},
    {"k_fmod_$T", kInts,
     R"(K_FN $C k_fmod_$T($C a, $C b) { return b == 0 ? 0 : a % b; }
)"},
    {"k_floordiv_$T", kInts, R"(K_FN $C k_floordiv_$T($C a, $C b) {
  if (b == 0) return 0;
  const $C q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
)"},
    {"k_remainder_$T", kInts, R"(K_FN $C k_remainder_$T($C a, $C b) {
  if (b == 0) return 0;
  const $C r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
)"},
    {"k_pow_$T", kInts, R"(K_FN $C k_pow_$T($C a, $C b) {
  if (b < 0) return a == 1 ? 1 : a == ($C)-1 ? (b & 1 ? -1 : 1) : 0;
  unsigned long long r = 1, x = a;
  for (unsigned long long n = b; n != 0; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return ($C)r;
}
)"},
    {"k_remainder_$T", "f32 f64", R"(K_FN $C k_remainder_$T($C a, $C b) {
  const $C r = fmod$S(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
)"},
    {"k_floordiv_$T", "f32 f64", R"(K_FN $C k_floordiv_$T($C a, $C b) {
  if (b == 0) return a / b;
  const $C r = fmod$S(a, b);
  $C q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return copysign$S(($C)0, a / b);
  const $C f = floor$S(q);
  return q - f > ($C)0.5 ? f + 1 : f;
}
)"},
    {"k_digamma_$T", "f32 f64", R"(K_FN $C k_digamma_$T($C v) {
  double x = v, y = 0;
  if (x == 0) return -copysign$S(k_inf_$T(), v);
  if (x < 0) {
    if (x == floor(x)) return k_nan_$T();
    y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - floor(x)));
    x = 1 - x;
  }
  for (; x < 8; x += 1) y -= 1 / x;
  const double z = 1 / (x * x);
  y += log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z / 132))));
  return ($C)y;
}
)"},
    // The same numbers as the CPU's prelude gives.
    {"k_philox", "",
     R"(K_FN void k_philox(long long seed, unsigned long long quad, unsigned long long number, unsigned (&c)[4]) {
  const unsigned long long key = (unsigned long long)seed + (number >> 32);
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  c[0] = (unsigned)quad, c[1] = (unsigned)(quad >> 32);
  c[2] = (unsigned)number, c[3] = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned n0 = __umulhi(0xCD9E8D57u, c[2]) ^ c[1] ^ k0;
    const unsigned n2 = __umulhi(0xD2511F53u, c[0]) ^ c[3] ^ k1;
    c[1] = 0xCD9E8D57u * c[2];
    c[3] = 0xD2511F53u * c[0];
    c[0] = n0;
    c[2] = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
K_FN float k_uniform(unsigned x) { return (float)(x >> 8) * 5.9604644775390625e-08f; }
)"},
    {"k_random_f32", "",
     R"(K_FN float k_random_f32(long long seed, long long index, unsigned long long number) {
  unsigned c[4];
  k_philox(seed, (unsigned long long)index >> 2, number, c);
  const int word = (int)index & 3;
  return k_uniform(word == 0 ? c[0] : word == 1 ? c[1] : word == 2 ? c[2] : c[3]);
}
)"},
    // Of neighbours, from a multiple of four on: four a counter.
    {"k_random_row", "",
     R"(template <int V>
K_FN void k_random_row(long long seed, long long first, unsigned long long number, float (&to)[V]) {
#pragma unroll
  for (int i = 0; i < V; i += 4) {
    unsigned c[4];
    k_philox(seed, (unsigned long long)(first + i) >> 2, number, c);
#pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j] = k_uniform(c[j]);
  }
}
)"},
};

}  // namespace

std::vector<PreludePart> CudaPrelude() {
  std::vector<PreludePart> parts(std::begin(kParts), std::end(kParts));
  for (const auto more :
       {CudaPreludeAccesses(), CudaJoins(), CudaPreludeScans(),
        CudaPreludeSorts(), CudaPreludeAtomics(), CudaPreludeMatrices(),
        CudaPreludeProduct(), CudaPreludeFlash(), CudaPreludeFlashGrads()})
    parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

}  // namespace kiln

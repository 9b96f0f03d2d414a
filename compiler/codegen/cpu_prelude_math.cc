#include "compiler/codegen/cpu_prelude_math.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    {"k_inf_f32", "", R"(K_FN float k_inf_f32() { return __builtin_inff(); }
)"},
    {"k_inf_f64", "", R"(K_FN double k_inf_f64() { return __builtin_inf(); }
)"},
    {"k_nan_f32", "", R"(K_FN float k_nan_f32() { return __builtin_nanf(""); }
)"},
    {"k_nan_f64", "", R"(K_FN double k_nan_f64() { return __builtin_nan(""); }
)"},
    {"k_maximum_$T", "f32 f64",
     R"(K_FN $C k_maximum_$T($C a, $C b) { return a > b || a != a ? a : b; }
K_FN kv_$T k_maximum_$T(kv_$T a, kv_$T b) { return (a > b) | (a != a) ? a : b; }
)"},
    {"k_minimum_$T", "f32 f64",
     R"(K_FN $C k_minimum_$T($C a, $C b) { return a < b || a != a ? a : b; }
K_FN kv_$T k_minimum_$T(kv_$T a, kv_$T b) { return (a < b) | (a != a) ? a : b; }
)"},
    {"k_abs_f32", "",
     R"(K_FN kv_f32 k_abs_f32(kv_f32 x) { return (kv_f32)((kv_i32)x & 0x7fffffff); }
K_FN float k_abs_f32(float x) { return __builtin_fabsf(x); }
)"},
    {"k_abs_f64", "",
     R"(K_FN kv_f64 k_abs_f64(kv_f64 x) { return (kv_f64)((kv_i64)x & 0x7fffffffffffffffll); }
K_FN double k_abs_f64(double x) { return __builtin_fabs(x); }
)"},
    {"k_sign_$T", "f32 f64",
     R"(K_FN $C k_sign_$T($C x) { return (x > 0) - (x < 0); }
K_FN kv_$T k_sign_$T(kv_$T x) {
  return __builtin_convertvector((x < kv_$T{}) - (x > kv_$T{}), kv_$T);
}
)"},
    {"k_copysign_f32", "", R"(K_FN kv_f32 k_copysign_f32(kv_f32 x, kv_f32 s) {
  return (kv_f32)(((kv_i32)x & 0x7fffffff) | ((kv_i32)s & (-2147483647 - 1)));
}
K_FN float k_copysign_f32(float x, float s) { return __builtin_copysignf(x, s); }
)"},
    {"k_isinf_$T", "f32 f64",
     R"(K_FN bool k_isinf_$T($C x) { return k_abs_$T(x) == k_inf_$T(); }
K_FN auto k_isinf_$T(kv_$T x) -> decltype(x == x) { return k_abs_$T(x) == k_inf_$T(); }
)"},
    {"k_signbit_f32", "",
     R"(K_FN bool k_signbit_f32(float x) { return __builtin_signbitf(x) != 0; }
K_FN kv_i32 k_signbit_f32(kv_f32 x) { return (kv_i32)x < 0; }
)"},
    {"k_signbit_f64", "",
     R"(K_FN bool k_signbit_f64(double x) { return __builtin_signbit(x) != 0; }
K_FN auto k_signbit_f64(kv_f64 x) -> decltype(x == x) { return (kv_i64)x < 0; }
)"},
    {"k_sqrt_$T", "f32 f64",
     R"(K_FN $C k_sqrt_$T($C x) { return __builtin_sqrt$S(x); }
K_FN kv_$T k_sqrt_$T(kv_$T x) {
  $C a[K_LANES];
  __builtin_memcpy(a, &x, sizeof(x));
  for (int l = 0; l < K_LANES; ++l) a[l] = __builtin_sqrt$S(a[l]);
  __builtin_memcpy(&x, a, sizeof(x));
  return x;
}
)"},
    {"k_floor_$T", "f32 f64",
     R"(K_FN $C k_floor_$T($C x) { return __builtin_floor$S(x); }
K_FN kv_$T k_floor_$T(kv_$T x) {
  $C a[K_LANES];
  __builtin_memcpy(a, &x, sizeof(x));
  for (int l = 0; l < K_LANES; ++l) a[l] = __builtin_floor$S(a[l]);
  __builtin_memcpy(&x, a, sizeof(x));
  return x;
}
)"},
    {"k_ceil_$T", "f32 f64",
     R"(K_FN $C k_ceil_$T($C x) { return __builtin_ceil$S(x); }
K_FN kv_$T k_ceil_$T(kv_$T x) {
  $C a[K_LANES];
  __builtin_memcpy(a, &x, sizeof(x));
  for (int l = 0; l < K_LANES; ++l) a[l] = __builtin_ceil$S(a[l]);
  __builtin_memcpy(&x, a, sizeof(x));
  return x;
}
)"},
    {"k_trunc_$T", "f32 f64",
     R"(K_FN $C k_trunc_$T($C x) { return __builtin_trunc$S(x); }
K_FN kv_$T k_trunc_$T(kv_$T x) {
  $C a[K_LANES];
  __builtin_memcpy(a, &x, sizeof(x));
  for (int l = 0; l < K_LANES; ++l) a[l] = __builtin_trunc$S(a[l]);
  __builtin_memcpy(&x, a, sizeof(x));
  return x;
}
)"},
    {"k_rint_$T", "f32 f64",
     R"(K_FN $C k_rint_$T($C x) { return __builtin_rint$S(x); }
K_FN kv_$T k_rint_$T(kv_$T x) {
  $C a[K_LANES];
  __builtin_memcpy(a, &x, sizeof(x));
  for (int l = 0; l < K_LANES; ++l) a[l] = __builtin_rint$S(a[l]);
  __builtin_memcpy(&x, a, sizeof(x));
  return x;
}
)"},
    {"k_fma_$T", "f32 f64",
     R"(K_FN $C k_fma_$T($C x, $C y, $C z) { return __builtin_fma$S(x, y, z); }
K_FN kv_$T k_fma_$T(kv_$T x, kv_$T y, kv_$T z) {
  for (int l = 0; l < K_LANES; ++l) x[l] = __builtin_fma$S(x[l], y[l], z[l]);
  return x;
}
)"},
    {"k_madd_f32", "",
     R"(// x * y + z, rounded once where the processor has such an instruction.
K_FN kv_f32 k_madd_f32(kv_f32 x, kv_f32 y, kv_f32 z) {
#ifdef __FMA__
  for (int l = 0; l < K_LANES; ++l) x[l] = __builtin_fmaf(x[l], y[l], z[l]);
  return x;
#else
  return x * y + z;
#endif
}
K_FN kv_f32 k_madd_f32(kv_f32 x, kv_f32 y, float z) { return k_madd_f32(x, y, k_splat_f32(z)); }
K_FN kv_f32 k_madd_f32(kv_f32 x, float y, float z) { return k_madd_f32(x, k_splat_f32(y), k_splat_f32(z)); }
K_FN kv_f32 k_madd_f32(kv_f32 x, float y, kv_f32 z) { return k_madd_f32(x, k_splat_f32(y), z); }
)"},
    {"k_scale_f32", "",
     R"(// y * 2^n for n in [-252, 252], in two exact steps and one rounding.
K_FN kv_f32 k_scale_f32(kv_f32 y, kv_i32 n) {
  const kv_i32 half = n >> 1;
  return y * (kv_f32)((half + 127) << 23) * (kv_f32)((n - half + 127) << 23);
}
)"},
    {"k_exp_small_f32", "", R"(// exp(r) for |r| <= 0.35.
K_FN kv_f32 k_exp_small_f32(kv_f32 r) {
  kv_f32 p = k_madd_f32(r, 1.9875691500e-4f, 1.3981999507e-3f);
  p = k_madd_f32(p, r, 8.3334519073e-3f);
  p = k_madd_f32(p, r, 4.1665795894e-2f);
  p = k_madd_f32(p, r, 1.6666665459e-1f);
  p = k_madd_f32(p, r, 5.0000001201e-1f);
  return k_madd_f32(p, r * r, r) + 1.0f;
}
)"},
    {"k_exp_f32", "", R"(K_FN kv_f32 k_exp_f32(kv_f32 x) {
  x = x > 89.0f ? k_splat_f32(89.0f) : x;
  x = x < -105.0f ? k_splat_f32(-105.0f) : x;
  const kv_f32 s = k_madd_f32(x, 1.44269504088896341f, 12582912.0f);
  const kv_f32 n = s - 12582912.0f;
  const kv_f32 r = k_madd_f32(n, 2.12194440e-4f, k_madd_f32(n, -0.693359375f, x));
  return k_scale_f32(k_exp_small_f32(r), (kv_i32)s - 0x4b400000);
}
K_FN float k_exp_f32(float x) { return k_exp_f32(k_splat_f32(x))[0]; }
)"},
    {"k_exp2_f32", "", R"(K_FN kv_f32 k_exp2_f32(kv_f32 x) {
  x = x > 129.0f ? k_splat_f32(129.0f) : x;
  x = x < -152.0f ? k_splat_f32(-152.0f) : x;
  const kv_f32 s = x + 12582912.0f;
  const kv_f32 r = (x - (s - 12582912.0f)) * 0.693147180559945f;
  return k_scale_f32(k_exp_small_f32(r), (kv_i32)s - 0x4b400000);
}
K_FN float k_exp2_f32(float x) { return k_exp2_f32(k_splat_f32(x))[0]; }
)"},
    {"k_wide", "",
     R"(K_FN kv_f64 k_wide(kv_f32 x) { return __builtin_convertvector(x, kv_f64); }
)"},
    {"k_narrow", "",
     R"(K_FN kv_f32 k_narrow(kv_f64 x) { return __builtin_convertvector(x, kv_f32); }
)"},
    {"k_wexp", "", R"(// exp in double for |x| <= 700, to 1e-13.
K_FN kv_f64 k_wexp(kv_f64 x) {
  const kv_f64 s = x * 1.44269504088896340736 + 6755399441055744.0;
  const kv_f64 n = s - 6755399441055744.0;
  const kv_f64 r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
  kv_f64 p = r * 2.5052108385441720e-8 + 2.7557319223985888e-7;
  p = p * r + 2.7557319223985893e-6;
  p = p * r + 2.4801587301587302e-5;
  p = p * r + 1.9841269841269841e-4;
  p = p * r + 1.3888888888888889e-3;
  p = p * r + 8.3333333333333332e-3;
  p = p * r + 4.1666666666666664e-2;
  p = p * r + 1.6666666666666666e-1;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return (kv_f64)((kv_i64)p + ((kv_i64)s << 52));
}
)"},
    {"k_wlog", "", R"(// log in double for normal positive x, to 1e-13.
K_FN kv_f64 k_wlog(kv_f64 x) {
  const kv_i64 bits = (kv_i64)x;
  kv_f64 m = (kv_f64)((bits & 0xfffffffffffffll) | 0x3ff0000000000000ll);
  kv_f64 e = (kv_f64)((bits >> 52) | 0x4330000000000000ll) - 4503599627371519.0;
  const auto big = m > 1.4142135623730951;
  m = big ? m * 0.5 : m;
  e = big ? e + 1.0 : e;
  const kv_f64 f = (m - 1.0) / (m + 1.0);
  const kv_f64 g = f * f;
  kv_f64 p = g * 0.13333333333333333 + 0.15384615384615385;
  p = p * g + 0.18181818181818182;
  p = p * g + 0.22222222222222222;
  p = p * g + 0.28571428571428571;
  p = p * g + 0.4;
  p = p * g + 0.66666666666666667;
  p = p * g + 2.0;
  return p * f + e * 0.69314718055994531;
}
)"},
    {"k_log_ends", "",
     R"(// Puts in what a logarithm is outside the positive finite numbers.
K_FN kv_f32 k_log_ends(kv_f32 x, kv_f32 y) {
  y = x == 0.0f ? k_splat_f32(-__builtin_inff()) : y;
  y = x < 0.0f ? k_splat_f32(__builtin_nanf("")) : y;
  return x < __builtin_inff() ? y : (x < 0.0f ? y : x);
}
)"},
    {"k_log_f32", "", R"(K_FN kv_f32 k_log_f32(kv_f32 x) {
  return k_log_ends(x, k_narrow(k_wlog(k_wide(x))));
}
K_FN float k_log_f32(float x) { return k_log_f32(k_splat_f32(x))[0]; }
)"},
    {"k_log2_f32", "", R"(K_FN kv_f32 k_log2_f32(kv_f32 x) {
  return k_log_ends(x, k_narrow(k_wlog(k_wide(x)) * 1.4426950408889634));
}
K_FN float k_log2_f32(float x) { return k_log2_f32(k_splat_f32(x))[0]; }
)"},
    {"k_log10_f32", "", R"(K_FN kv_f32 k_log10_f32(kv_f32 x) {
  return k_log_ends(x, k_narrow(k_wlog(k_wide(x)) * 0.43429448190325182));
}
K_FN float k_log10_f32(float x) { return k_log10_f32(k_splat_f32(x))[0]; }
)"},
    {"k_log1p_f32", "", R"(K_FN kv_f32 k_log1p_f32(kv_f32 x) {
  const kv_f64 d = k_wide(x);
  kv_f64 p = d * -0.16666666666666667 + 0.2;
  p = p * d - 0.25;
  p = p * d + 0.33333333333333333;
  p = p * d - 0.5;
  p = p * d * d + d;
  const kv_f64 far = k_wlog(d + 1.0);
  const kv_f32 near = k_narrow(p);
  const kv_f32 y = k_log_ends(x + 1.0f, k_narrow(far));
  return k_abs_f32(x) < 0.01f ? near : y;
}
K_FN float k_log1p_f32(float x) { return k_log1p_f32(k_splat_f32(x))[0]; }
)"},
    {"k_expm1_f32", "", R"(K_FN kv_f32 k_expm1_f32(kv_f32 x) {
  kv_f32 c = x > 90.0f ? k_splat_f32(90.0f) : x;
  c = c < -90.0f ? k_splat_f32(-90.0f) : c;
  const kv_f64 d = k_wide(c);
  kv_f64 p = d * 8.3333333333333332e-3 + 4.1666666666666664e-2;
  p = p * d + 0.16666666666666667;
  p = p * d + 0.5;
  p = p * d * d + d;
  const kv_f32 far = k_narrow(k_wexp(d) - 1.0);
  const kv_f32 y = k_abs_f32(x) < 0.01f ? k_narrow(p) : far;
  return (x == x) & (x != 0.0f) ? y : x;
}
K_FN float k_expm1_f32(float x) { return k_expm1_f32(k_splat_f32(x))[0]; }
)"},
    {"k_exp_minus_f32", "", R"(// exp(-x) for x in [0, 80].
K_FN kv_f32 k_exp_minus_f32(kv_f32 x) {
  const kv_f32 s = k_madd_f32(x, -1.44269504088896341f, 12582912.0f);
  const kv_f32 n = s - 12582912.0f;
  const kv_f32 r = k_madd_f32(n, 2.12194440e-4f, k_madd_f32(n, -0.693359375f, -x));
  return k_exp_small_f32(r) * (kv_f32)(((kv_i32)s << 23) + 0x3f800000);
}
)"},
    {"k_tanh_f32", "",
     R"(// Near 0 a fit of (tanh(t)/t - 1)/t^2 over t^2, to 9e-11; else by exp(-2t).
K_FN kv_f32 k_tanh_f32(kv_f32 x) {
  kv_f32 a = k_abs_f32(x);
  a = a > 20.0f ? k_splat_f32(20.0f) : a;
  const kv_f32 g = a * a;
  kv_f32 p = k_madd_f32(g, 2.231060993e-03f, -8.267087862e-03f);
  p = k_madd_f32(p, g, 2.173443884e-02f);
  p = k_madd_f32(p, g, -5.395247415e-02f);
  p = k_madd_f32(p, g, 1.333324760e-01f);
  p = k_madd_f32(p, g, -3.333333135e-01f);
  const kv_f32 near = k_madd_f32(p * g, a, a);
  const kv_f32 e = k_exp_minus_f32(a + a);
  const kv_f32 far = 1.0f - (e + e) / (1.0f + e);
  const kv_f32 y = k_copysign_f32(a < 0.6f ? near : far, x);
  return x == x ? y : x;
}
K_FN float k_tanh_f32(float x) { return k_tanh_f32(k_splat_f32(x))[0]; }
)"},
    {"k_erf_f32", "",
     R"(// Near 0 a fit of erf(t)/t - 1 over t^2, to 6e-10; else one of -log(1 - erf(t)).
K_FN kv_f32 k_erf_f32(kv_f32 x) {
  kv_f32 a = k_abs_f32(x);
  a = a > 4.0f ? k_splat_f32(4.0f) : a;
  const kv_f32 g = a * a;
  kv_f32 p = k_madd_f32(g, 8.513102512e-05f, -8.175639086e-04f);
  p = k_madd_f32(p, g, 5.203858949e-03f);
  p = k_madd_f32(p, g, -2.686050907e-02f);
  p = k_madd_f32(p, g, 1.128371507e-01f);
  p = k_madd_f32(p, g, -3.761263490e-01f);
  p = k_madd_f32(p, g, 1.283791661e-01f);
  const kv_f32 near = k_madd_f32(p, a, a);
  kv_f32 q = k_madd_f32(a, 2.062920066e-05f, -4.290846700e-04f);
  q = k_madd_f32(q, a, 4.145062063e-03f);
  q = k_madd_f32(q, a, -2.505115978e-02f);
  q = k_madd_f32(q, a, 1.081749052e-01f);
  q = k_madd_f32(q, a, 6.334420443e-01f);
  q = k_madd_f32(q, a, 1.129468083e+00f);
  q = k_madd_f32(q, a, -1.650076447e-04f);
  const kv_f32 far = 1.0f - k_exp_minus_f32(q);
  const kv_f32 y = k_copysign_f32(a < 0.9f ? near : far, x);
  return x == x ? y : x;
}
K_FN float k_erf_f32(float x) { return k_erf_f32(k_splat_f32(x))[0]; }
)"},
    {"k_turn_f32", "",
     R"(// Sine, or cosine when `quarter` is 1, for |x| <= K_FAR. With fused products the
// remainder by pi/2 is right to its last place, without them it takes doubles.
#ifdef __FMA__
#define K_FAR 131072.0f
K_FN kv_f32 k_turn_f32(kv_f32 x, int quarter) {
  const kv_f32 s = k_madd_f32(x, 0.63661977236758134f, 12582912.0f);
  const kv_f32 q = s - 12582912.0f;
  kv_f32 r = k_madd_f32(q, -1.5707963705e+00f, x);
  r = k_madd_f32(q, 4.3711388287e-08f, r);
  r = k_madd_f32(q, 1.7151245100e-15f, r);
  const kv_i32 n = (kv_i32)s + quarter;
  const kv_f32 g = r * r;
  kv_f32 p = k_madd_f32(g, 2.717568123e-06f, -1.983925758e-04f);
  p = k_madd_f32(p, g, 8.333329111e-03f);
  p = k_madd_f32(p, g, -1.666666716e-01f);
  p = k_madd_f32(p * g, r, r);
  kv_f32 c = k_madd_f32(g, 2.442571713e-05f, -1.388725126e-03f);
  c = k_madd_f32(c, g, 4.166664556e-02f);
  c = k_madd_f32(c, g, -0.5f);
  c = k_madd_f32(c, g, 1.0f);
  const kv_i32 y = (n & 1) != 0 ? (kv_i32)c : (kv_i32)p;
  return (kv_f32)(y ^ ((n & 2) << 30));
}
#else
#define K_FAR 1048576.0f
K_FN kv_f32 k_turn_f32(kv_f32 from, int quarter) {
  const kv_f64 x = k_wide(from);
  const kv_f64 s = x * 0.63661977236758134 + 6755399441055744.0;
  const kv_f64 q = s - 6755399441055744.0;
  const kv_f64 r = x - q * 1.57079632673412561417 - q * 6.07710050650619224932e-11;
  const kv_i64 n = (kv_i64)s + quarter;
  const kv_f64 g = r * r;
  kv_f64 p = g * -2.5052108385441720e-8 + 2.7557319223985893e-6;
  p = p * g - 1.9841269841269841e-4;
  p = p * g + 8.3333333333333332e-3;
  p = p * g - 0.16666666666666667;
  p = p * g * r + r;
  kv_f64 c = g * 2.0876756987868099e-9 - 2.7557319223985888e-7;
  c = c * g + 2.4801587301587302e-5;
  c = c * g - 1.3888888888888889e-3;
  c = c * g + 4.1666666666666664e-2;
  c = c * g - 0.5;
  c = c * g + 1.0;
  const kv_f64 y = (kv_f64)((n & 1) != 0 ? (kv_i64)c : (kv_i64)p);
  return k_narrow((kv_f64)((kv_i64)y ^ ((n & 2) << 62)));
}
#endif
)"},
    {"k_sin_f32", "", R"(extern "C" float sinf(float);
static __attribute__((noinline)) void k_sin_far_f32(const float* x, float* y) {
  for (int l = 0; l < K_LANES; ++l)
    if (!(__builtin_fabsf(x[l]) <= K_FAR)) y[l] = sinf(x[l]);
}
K_FN kv_f32 k_sin_f32(kv_f32 x) {
  kv_f32 y = k_turn_f32(x, 0);
  if (__builtin_expect(k_any(~k_mask(k_abs_f32(x) <= K_FAR)), 0)) {
    float a[K_LANES], b[K_LANES];
    __builtin_memcpy(a, &x, sizeof(x));
    __builtin_memcpy(b, &y, sizeof(y));
    k_sin_far_f32(a, b);
    __builtin_memcpy(&y, b, sizeof(y));
  }
  return x == 0.0f ? x : y;
}
K_FN float k_sin_f32(float x) { return k_sin_f32(k_splat_f32(x))[0]; }
)"},
    {"k_cos_f32", "", R"(extern "C" float cosf(float);
static __attribute__((noinline)) void k_cos_far_f32(const float* x, float* y) {
  for (int l = 0; l < K_LANES; ++l)
    if (!(__builtin_fabsf(x[l]) <= K_FAR)) y[l] = cosf(x[l]);
}
K_FN kv_f32 k_cos_f32(kv_f32 x) {
  kv_f32 y = k_turn_f32(x, 1);
  if (__builtin_expect(k_any(~k_mask(k_abs_f32(x) <= K_FAR)), 0)) {
    float a[K_LANES], b[K_LANES];
    __builtin_memcpy(a, &x, sizeof(x));
    __builtin_memcpy(b, &y, sizeof(y));
    k_cos_far_f32(a, b);
    __builtin_memcpy(&y, b, sizeof(y));
  }
  return y;
}
K_FN float k_cos_f32(float x) { return k_cos_f32(k_splat_f32(x))[0]; }
)"},
    {"k_pow_f32", "", R"(extern "C" float powf(float, float);
static __attribute__((noinline)) void k_pow_far_f32(const float* x, const float* e, float* y) {
  for (int l = 0; l < K_LANES; ++l) {
    const float big = __builtin_inff();
    if (!(x[l] > 0.0f && x[l] < big && e[l] < big && e[l] > -big)) y[l] = powf(x[l], e[l]);
  }
}
K_FN kv_f32 k_pow_f32(kv_f32 x, kv_f32 e) {
  const float big = __builtin_inff();
  kv_f64 d = k_wlog(k_wide(x)) * k_wide(e);
  d = d > 110.0 ? k_splat_f64(110.0) : d;
  d = d < -110.0 ? k_splat_f64(-110.0) : d;
  kv_f32 y = k_narrow(k_wexp(d));
  if (__builtin_expect(k_any(~k_mask((x > 0.0f) & (x < big) & (e < big) & (e > -big))), 0)) {
    float a[K_LANES], b[K_LANES], c[K_LANES];
    __builtin_memcpy(a, &x, sizeof(x));
    __builtin_memcpy(b, &e, sizeof(e));
    __builtin_memcpy(c, &y, sizeof(y));
    k_pow_far_f32(a, b, c);
    __builtin_memcpy(&y, c, sizeof(y));
  }
  return y;
}
K_FN float k_pow_f32(float x, float e) { return k_pow_f32(k_splat_f32(x), k_splat_f32(e))[0]; }
)"},
};

}  // namespace

absl::Span<const PreludePart> CpuMathPrelude() { return kParts; }

}  // namespace kiln

// Doubles, and functions that no model spends its time in: the C library's,
// lane by lane, and what it lacks.

#include "compiler/codegen/cpu_prelude_math.h"

namespace kiln {
namespace {

constexpr PreludePart kParts[] = {
    {"k_exp_$T", "f64", R"(extern "C" $C exp$S($C);
K_FN $C k_exp_$T($C x) { return exp$S(x); }
K_FN kv_$T k_exp_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = exp$S(x[l]);
  return x;
}
)"},
    {"k_exp2_$T", "f64", R"(extern "C" $C exp2$S($C);
K_FN $C k_exp2_$T($C x) { return exp2$S(x); }
K_FN kv_$T k_exp2_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = exp2$S(x[l]);
  return x;
}
)"},
    {"k_expm1_$T", "f64", R"(extern "C" $C expm1$S($C);
K_FN $C k_expm1_$T($C x) { return expm1$S(x); }
K_FN kv_$T k_expm1_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = expm1$S(x[l]);
  return x;
}
)"},
    {"k_log_$T", "f64", R"(extern "C" $C log$S($C);
K_FN $C k_log_$T($C x) { return log$S(x); }
K_FN kv_$T k_log_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = log$S(x[l]);
  return x;
}
)"},
    {"k_log2_$T", "f64", R"(extern "C" $C log2$S($C);
K_FN $C k_log2_$T($C x) { return log2$S(x); }
K_FN kv_$T k_log2_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = log2$S(x[l]);
  return x;
}
)"},
    {"k_log10_$T", "f64", R"(extern "C" $C log10$S($C);
K_FN $C k_log10_$T($C x) { return log10$S(x); }
K_FN kv_$T k_log10_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = log10$S(x[l]);
  return x;
}
)"},
    {"k_log1p_$T", "f64", R"(extern "C" $C log1p$S($C);
K_FN $C k_log1p_$T($C x) { return log1p$S(x); }
K_FN kv_$T k_log1p_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = log1p$S(x[l]);
  return x;
}
)"},
    {"k_sin_$T", "f64", R"(extern "C" $C sin$S($C);
K_FN $C k_sin_$T($C x) { return sin$S(x); }
K_FN kv_$T k_sin_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = sin$S(x[l]);
  return x;
}
)"},
    {"k_cos_$T", "f64", R"(extern "C" $C cos$S($C);
K_FN $C k_cos_$T($C x) { return cos$S(x); }
K_FN kv_$T k_cos_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = cos$S(x[l]);
  return x;
}
)"},
    {"k_tanh_$T", "f64", R"(extern "C" $C tanh$S($C);
K_FN $C k_tanh_$T($C x) { return tanh$S(x); }
K_FN kv_$T k_tanh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = tanh$S(x[l]);
  return x;
}
)"},
    {"k_erf_$T", "f64", R"(extern "C" $C erf$S($C);
K_FN $C k_erf_$T($C x) { return erf$S(x); }
K_FN kv_$T k_erf_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = erf$S(x[l]);
  return x;
}
)"},
    {"k_tan_$T", "f32 f64", R"(extern "C" $C tan$S($C);
K_FN $C k_tan_$T($C x) { return tan$S(x); }
K_FN kv_$T k_tan_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = tan$S(x[l]);
  return x;
}
)"},
    {"k_asin_$T", "f32 f64", R"(extern "C" $C asin$S($C);
K_FN $C k_asin_$T($C x) { return asin$S(x); }
K_FN kv_$T k_asin_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = asin$S(x[l]);
  return x;
}
)"},
    {"k_acos_$T", "f32 f64", R"(extern "C" $C acos$S($C);
K_FN $C k_acos_$T($C x) { return acos$S(x); }
K_FN kv_$T k_acos_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = acos$S(x[l]);
  return x;
}
)"},
    {"k_atan_$T", "f32 f64", R"(extern "C" $C atan$S($C);
K_FN $C k_atan_$T($C x) { return atan$S(x); }
K_FN kv_$T k_atan_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = atan$S(x[l]);
  return x;
}
)"},
    {"k_sinh_$T", "f32 f64", R"(extern "C" $C sinh$S($C);
K_FN $C k_sinh_$T($C x) { return sinh$S(x); }
K_FN kv_$T k_sinh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = sinh$S(x[l]);
  return x;
}
)"},
    {"k_cosh_$T", "f32 f64", R"(extern "C" $C cosh$S($C);
K_FN $C k_cosh_$T($C x) { return cosh$S(x); }
K_FN kv_$T k_cosh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = cosh$S(x[l]);
  return x;
}
)"},
    {"k_asinh_$T", "f32 f64", R"(extern "C" $C asinh$S($C);
K_FN $C k_asinh_$T($C x) { return asinh$S(x); }
K_FN kv_$T k_asinh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = asinh$S(x[l]);
  return x;
}
)"},
    {"k_acosh_$T", "f32 f64", R"(extern "C" $C acosh$S($C);
K_FN $C k_acosh_$T($C x) { return acosh$S(x); }
K_FN kv_$T k_acosh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = acosh$S(x[l]);
  return x;
}
)"},
    {"k_atanh_$T", "f32 f64", R"(extern "C" $C atanh$S($C);
K_FN $C k_atanh_$T($C x) { return atanh$S(x); }
K_FN kv_$T k_atanh_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = atanh$S(x[l]);
  return x;
}
)"},
    {"k_erfc_$T", "f32 f64", R"(extern "C" $C erfc$S($C);
K_FN $C k_erfc_$T($C x) { return erfc$S(x); }
K_FN kv_$T k_erfc_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = erfc$S(x[l]);
  return x;
}
)"},
    {"k_lgamma_$T", "f32 f64", R"(extern "C" $C lgamma$S($C);
K_FN $C k_lgamma_$T($C x) { return lgamma$S(x); }
K_FN kv_$T k_lgamma_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = lgamma$S(x[l]);
  return x;
}
)"},
    {"k_pow_$T", "f64", R"(extern "C" $C pow$S($C, $C);
K_FN $C k_pow_$T($C x, $C y) { return pow$S(x, y); }
K_FN kv_$T k_pow_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = pow$S(x[l], y[l]);
  return x;
}
)"},
    {"k_copysign_$T", "f64", R"(extern "C" $C copysign$S($C, $C);
K_FN $C k_copysign_$T($C x, $C y) { return copysign$S(x, y); }
K_FN kv_$T k_copysign_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = copysign$S(x[l], y[l]);
  return x;
}
)"},
    {"k_fmod_$T", "f32 f64", R"(extern "C" $C fmod$S($C, $C);
K_FN $C k_fmod_$T($C x, $C y) { return fmod$S(x, y); }
K_FN kv_$T k_fmod_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = fmod$S(x[l], y[l]);
  return x;
}
)"},
    {"k_atan2_$T", "f32 f64", R"(extern "C" $C atan2$S($C, $C);
K_FN $C k_atan2_$T($C x, $C y) { return atan2$S(x, y); }
K_FN kv_$T k_atan2_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = atan2$S(x[l], y[l]);
  return x;
}
)"},
    {"k_nextafter_$T", "f32 f64", R"(extern "C" $C nextafter$S($C, $C);
K_FN $C k_nextafter_$T($C x, $C y) { return nextafter$S(x, y); }
K_FN kv_$T k_nextafter_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = nextafter$S(x[l], y[l]);
  return x;
}
)"},
    {"k_hypot_$T", "f32 f64", R"(extern "C" $C hypot$S($C, $C);
K_FN $C k_hypot_$T($C x, $C y) { return hypot$S(x, y); }
K_FN kv_$T k_hypot_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = hypot$S(x[l], y[l]);
  return x;
}
)"},
    {"k_remainder_$T", "f32 f64", R"(K_FN $C k_remainder_$T($C a, $C b) {
  const $C r = k_fmod_$T(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
K_FN kv_$T k_remainder_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = k_remainder_$T(($C)x[l], ($C)y[l]);
  return x;
}
)"},
    {"k_floordiv_$T", "f32 f64", R"(K_FN $C k_floordiv_$T($C a, $C b) {
  if (b == 0) return a / b;
  const $C r = k_fmod_$T(a, b);
  $C q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return k_copysign_$T(($C)0, a / b);
  const $C f = __builtin_floor$S(q);
  return q - f > ($C)0.5 ? f + 1 : f;
}
K_FN kv_$T k_floordiv_$T(kv_$T x, kv_$T y) {
  for (int l = 0; l < K_LANES; ++l) x[l] = k_floordiv_$T(($C)x[l], ($C)y[l]);
  return x;
}
)"},
    {"k_erfinv_$T", "f32 f64",
     R"(// Winitzki's start, then Newton's steps in double.
extern "C" double erf(double);
extern "C" double exp(double);
extern "C" double log(double);
K_FN $C k_erfinv_$T($C v) {
  const double x = v;
  if (!(x > -1 && x < 1)) return x == 1 ? k_inf_$T() : x == -1 ? -k_inf_$T() : k_nan_$T();
  const double w = log((1 - x) * (1 + x));
  const double t = 4.3307467508 + w / 2;
  double y = __builtin_copysign(__builtin_sqrt(__builtin_sqrt(t * t - w / 0.147) - t), x);
  for (int i = 0; i < 3; ++i) {
    const double e = erf(y) - x;
    const double u = e / (1.1283791670955126 * exp(-y * y));
    y -= u / (1 + y * u);
  }
  return ($C)(x == 0 ? x : y);
}
K_FN kv_$T k_erfinv_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = k_erfinv_$T(($C)x[l]);
  return x;
}
)"},
    {"k_digamma_$T", "f32 f64",
     R"(// Recurrence up to 8, then the asymptotic series; reflection below zero.
extern "C" double tan(double);
extern "C" double log(double);
K_FN $C k_digamma_$T($C v) {
  double x = v, y = 0;
  if (x == 0) return -__builtin_copysign$S(k_inf_$T(), v);
  if (x < 0) {
    if (x == __builtin_floor(x)) return k_nan_$T();
    y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - __builtin_floor(x)));
    x = 1 - x;
  }
  for (; x < 8; x += 1) y -= 1 / x;
  const double z = 1 / (x * x);
  y += log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z / 132))));
  return ($C)y;
}
K_FN kv_$T k_digamma_$T(kv_$T x) {
  for (int l = 0; l < K_LANES; ++l) x[l] = k_digamma_$T(($C)x[l]);
  return x;
}
)"},
};

}  // namespace

absl::Span<const PreludePart> CpuLibmPrelude() { return kParts; }

}  // namespace kiln

// One tensor in, one of its shape out. The names are PyTorch's.

#include <cmath>
#include <cstdlib>
#include <limits>

#include "compiler/reference/pointwise.h"
#include "compiler/reference/reference_table.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

constexpr double kPi = 3.14159265358979323846;

constexpr auto kSign = [](auto x) {
  return static_cast<decltype(x)>((x > 0) - (x < 0));
};
constexpr auto kAbs = [](auto x) { return x < 0 ? -x : x; };

RefResults BitwiseNot(RefCall& call) {
  Elements x = call.Load("self");
  const bool logical = call.Tensor("self").dtype == DType::kBool;
  for (int64_t& v : x.i) v = logical ? v == 0 : ~v;
  return {call.Make(0, x)};
}

RefResults Round(RefCall& call) {
  Elements x = call.Load("self");
  for (double& v : x.f) v = std::nearbyint(v);
  return {call.Make(0, x)};
}

RefResults RoundDecimals(RefCall& call) {
  Elements x = call.Load("self");
  const int64_t decimals = call.Int("decimals");
  const double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  const bool up = decimals >= 0;
  for (double& v : x.f) {
    v = up ? std::nearbyint(v * scale) / scale
           : std::nearbyint(v / scale) * scale;
  }
  return {call.Make(0, x)};
}

RefResults NanToNum(RefCall& call) {
  Elements x = call.Load("self");
  const DType dtype = call.result(0).dtype;
  const double largest = dtype == DType::kFloat64    ? 1.7976931348623157e308
                         : dtype == DType::kFloat16  ? 65504.0
                         : dtype == DType::kBFloat16 ? 3.3895313892515355e38
                                                     : 3.4028234663852886e38;
  const double nan = call.Has("nan") ? call.Float("nan") : 0.0;
  const double inf = call.Has("posinf") ? call.Float("posinf") : largest;
  const double ninf = call.Has("neginf") ? call.Float("neginf") : -largest;
  for (double& v : x.f) {
    v = std::isnan(v) ? nan : !std::isinf(v) ? v : v > 0 ? inf : ninf;
  }
  return {call.Make(0, x)};
}

RefResults Logit(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  for (double& v : x.f) {
    if (call.Has("eps")) {
      const double eps = call.Float("eps");
      v = v < eps ? eps : v > 1 - eps ? 1 - eps : v;
    }
    v = std::log(v / (1 - v));
  }
  return {call.Make(0, x)};
}

// The same elements, in the dtype and layout of the result.
RefResults Same(RefCall& call) { return {call.Make(0, call.Load("self"))}; }
RefResults CopyOfA(RefCall& call) { return {call.Make(0, call.Load("a"))}; }

RefResults RoundToHalf(RefCall& call) {
  Elements x = call.Load("a");
  const DType dtype = call.ScalarType("dtype");
  for (double& v : x.f) v = RoundTo(dtype, v);
  return {call.Make(0, x)};
}

constexpr auto kEntropy = [](double x) {
  return x > 0 ? -x * std::log(x) : x == 0 ? 0.0 : x != x ? x : -INFINITY;
};

RefResults MultivariateLgamma(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const int64_t p = call.Int("p");
  for (double& v : x.f) {
    double sum = static_cast<double>(p * (p - 1)) / 4 * std::log(M_PI);
    for (int64_t j = 0; j < p; ++j) {
      sum += std::lgamma(v - 0.5 * static_cast<double>(j));
    }
    v = sum;
  }
  return {call.Make(0, x)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.abs.default", Unary<kAbs>},
    {"aten.neg.default", Unary<[](auto x) { return -x; }>},
    {"aten.positive.default", Same},
    {"aten.sign.default", Unary<kSign>},
    {"aten.sgn.default", Unary<kSign>},
    {"aten.square.default", Unary<[](auto x) { return x * x; }>},
    {"aten.relu.default", Unary<[](auto x) { return x < 0 ? 0 : x; }>},
    {"aten.bitwise_not.default", BitwiseNot},
    {"aten.logical_not.default", UnaryTest<[](auto x) { return x == 0; }>},
    {"aten.isnan.default", UnaryTest<[](auto x) { return x != x; }>},
    {"aten.isinf.default",
     UnaryTest<[](auto x) { return std::isinf(static_cast<double>(x)); }>},
    {"aten.isposinf.default",
     UnaryTest<[](auto x) { return static_cast<double>(x) == INFINITY; }>},
    {"aten.isneginf.default",
     UnaryTest<[](auto x) { return static_cast<double>(x) == -INFINITY; }>},
    {"aten.signbit.default",
     UnaryTest<[](auto x) { return std::signbit(static_cast<double>(x)); }>},
    {"aten.ceil.default", UnaryRounding<[](double x) { return std::ceil(x); }>},
    {"aten.floor.default",
     UnaryRounding<[](double x) { return std::floor(x); }>},
    {"aten.trunc.default",
     UnaryRounding<[](double x) { return std::trunc(x); }>},
    {"aten.frac.default",
     UnaryFloat<[](double x) { return x - std::trunc(x); }>},
    {"aten.round.default", Round},
    {"aten.round.decimals", RoundDecimals},
    {"aten.nan_to_num.default", NanToNum},
    {"aten.logit.default", Logit},
    {"aten.reciprocal.default", UnaryFloat<[](double x) { return 1 / x; }>},
    {"aten.sqrt.default", UnaryFloat<[](double x) { return std::sqrt(x); }>},
    {"aten.rsqrt.default",
     UnaryFloat<[](double x) { return 1 / std::sqrt(x); }>},
    {"aten.exp.default", UnaryFloat<[](double x) { return std::exp(x); }>},
    {"aten.exp2.default", UnaryFloat<[](double x) { return std::exp2(x); }>},
    {"aten.expm1.default", UnaryFloat<[](double x) { return std::expm1(x); }>},
    {"aten.log.default", UnaryFloat<[](double x) { return std::log(x); }>},
    {"aten.log2.default", UnaryFloat<[](double x) { return std::log2(x); }>},
    {"aten.log10.default", UnaryFloat<[](double x) { return std::log10(x); }>},
    {"aten.log1p.default", UnaryFloat<[](double x) { return std::log1p(x); }>},
    {"aten.sin.default", UnaryFloat<[](double x) { return std::sin(x); }>},
    {"aten.cos.default", UnaryFloat<[](double x) { return std::cos(x); }>},
    {"aten.tan.default", UnaryFloat<[](double x) { return std::tan(x); }>},
    {"aten.asin.default", UnaryFloat<[](double x) { return std::asin(x); }>},
    {"aten.acos.default", UnaryFloat<[](double x) { return std::acos(x); }>},
    {"aten.atan.default", UnaryFloat<[](double x) { return std::atan(x); }>},
    {"aten.sinh.default", UnaryFloat<[](double x) { return std::sinh(x); }>},
    {"aten.cosh.default", UnaryFloat<[](double x) { return std::cosh(x); }>},
    {"aten.tanh.default", UnaryFloat<[](double x) { return std::tanh(x); }>},
    {"aten.asinh.default", UnaryFloat<[](double x) { return std::asinh(x); }>},
    {"aten.acosh.default", UnaryFloat<[](double x) { return std::acosh(x); }>},
    {"aten.atanh.default", UnaryFloat<[](double x) { return std::atanh(x); }>},
    {"aten.erf.default", UnaryFloat<[](double x) { return std::erf(x); }>},
    {"aten.erfc.default", UnaryFloat<[](double x) { return std::erfc(x); }>},
    {"aten.erfinv.default", UnaryFloat<[](double x) { return Erfinv(x); }>},
    {"aten.lgamma.default",
     UnaryFloat<[](double x) { return std::lgamma(x); }>},
    {"aten.digamma.default", UnaryFloat<[](double x) { return Digamma(x); }>},
    {"aten.sigmoid.default",
     UnaryFloat<[](double x) { return 1 / (1 + std::exp(-x)); }>},
    {"aten.deg2rad.default",
     UnaryFloat<[](double x) { return x * (kPi / 180); }>},
    {"aten.rad2deg.default",
     UnaryFloat<[](double x) { return x * (180 / kPi); }>},
    {"aten.sinc.default", UnaryFloat<[](double x) {
       return x == 0 ? 1.0 : std::sin(kPi * x) / (kPi * x);
     }>},
    {"aten.special_entr.default", UnaryFloat<kEntropy>},
    {"aten.clone.default", Same},
    {"aten._to_copy.default", Same},
    {"aten.lift_fresh_copy.default", Same},
    {"aten.lift_fresh.default", Same},
    {"aten.alias_copy.default", Same},
    {"aten.detach_copy.default", Same},
    {"aten.mvlgamma.default", MultivariateLgamma},
    {"prims.convert_element_type.default", CopyOfA},
    {"prims.copy_strided.default", CopyOfA},
    {"prims.round_to.default", RoundToHalf},
};

}  // namespace

absl::Span<const ReferenceRow> UnaryReferences() { return kRows; }

}  // namespace kiln

// Elementwise operators that are short formulas over plainer ones.

#include <cmath>

#include "compiler/graph/op_table.h"
#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;

Parts Frac(Decomposition& d) {
  const ValueId x = d.Tensor("self");
  return {d.e.Sub(x, d.e.Call("aten.trunc.default", {x}))};
}

Parts Deg2Rad(Decomposition& d) {
  return {d.e.Mul(d.Compute("self"), kPi / 180)};
}

Parts Rad2Deg(Decomposition& d) {
  return {d.e.Mul(d.Compute("self"), 180 / kPi)};
}

// sin(pi x) / (pi x), and 1 at 0
Parts Sinc(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const ValueId scaled = e.Mul(x, kPi);
  const ValueId quotient = e.Div(e.Call("aten.sin.default", {scaled}), scaled);
  return {e.Where(e.Eq(x, 0.0), 1.0, quotient)};
}

// -x log x; 0 at 0, -infinity below, NaN stays.
Parts Entropy(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const ValueId inside = e.Mul(e.Neg(x), e.Log(x));
  const ValueId at_most = e.Where(e.Lt(x, 0.0), -INFINITY, e.Mul(x, 0.0));
  return {e.Where(e.Gt(x, 0.0), inside, at_most)};
}

Parts Logit(Decomposition& d) {
  Emitter& e = d.e;
  ValueId x = d.Compute("self");
  if (d.Has("eps")) {
    const double eps = d.Float("eps");
    x = e.ClampMax(e.ClampMin(x, eps), 1 - eps);
  }
  return {e.Log(e.Div(x, e.Rsub(x, 1.0)))};
}

Parts IsPositiveInfinity(Decomposition& d) {
  return {d.e.Eq(d.Compute("self"), static_cast<double>(INFINITY))};
}

Parts IsNegativeInfinity(Decomposition& d) {
  return {d.e.Eq(d.Compute("self"), -static_cast<double>(INFINITY))};
}

// Half to even at the place that is asked for, as eager mode: scaled, rounded,
// scaled back.
Parts RoundDecimals(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const int64_t decimals = d.Int("decimals");
  const double scale = std::pow(10.0, std::abs(decimals));
  if (decimals >= 0) {
    return {e.Div(e.Call("aten.round.default", {e.Mul(x, scale)}), scale)};
  }
  return {e.Mul(e.Call("aten.round.default", {e.Div(x, scale)}), scale)};
}

// An operand of two: a tensor, or a number as it came.
Operand Other(Decomposition& d) {
  const Argument& other = d.Get("other");
  return other.is_value() ? Operand(d.e.Compute(other.value())) : other;
}

// x log y, and 0 where x is 0, but NaN where y is.
Parts Xlogy(Decomposition& d) {
  Emitter& e = d.e;
  if (!d.Get("self").is_value() || !d.Get("other").is_value()) {
    return d.Unsupported("a number as an operand");
  }
  const ValueId x = d.Compute("self"), y = d.Compute("other");
  const ValueId product = e.Where(e.Eq(x, 0.0), 0.0, e.Mul(x, e.Log(y)));
  return {e.Where(e.Ne(y, y), y, product)};
}

// max + log1p(exp(-|a - b|)); two equal infinities are themselves.
ValueId LogAdd(Emitter& e, ValueId a, ValueId b) {
  const ValueId soft = e.Log1p(e.Exp(e.Neg(e.Abs(e.Sub(a, b)))));
  const ValueId infinite =
      e.And(e.Eq(a, b), e.Eq(e.Abs(a), static_cast<double>(INFINITY)));
  return e.Where(infinite, a, e.Add(e.Maximum(a, b), soft));
}

Parts Logaddexp(Decomposition& d) {
  return {LogAdd(d.e, d.Compute("self"), Other(d).value())};
}

Parts Logaddexp2(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId sum =
      LogAdd(e, e.Mul(d.Compute("self"), kLn2), e.Mul(Other(d).value(), kLn2));
  return {e.Mul(sum, 1 / kLn2)};
}

Parts Heaviside(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self"), values = d.Tensor("values");
  const ValueId step = e.ToDType(e.Gt(x, 0), e.dtype(values));
  return {e.Where(e.Eq(x, 0), values, step)};
}

// x log1p y, and 0 where x is 0, but NaN where y is.
Parts Xlog1py(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self"), y = d.Compute("other");
  const ValueId product = e.Where(e.Eq(x, 0.0), 0.0, e.Mul(x, e.Log1p(y)));
  return {e.Where(e.Ne(y, y), y, product)};
}

// x 2^other
Parts Ldexp(Decomposition& d) {
  Emitter& e = d.e;
  return {e.Mul(d.Compute("self"),
                e.Call("aten.exp2.default", {d.Compute("other")}))};
}

// The sum of lgamma(x - j / 2) for j below p, and p (p - 1) / 4 log(pi).
Parts MultivariateLgamma(Decomposition& d) {
  static const OpDef& kLgamma = KnownOp("aten.lgamma.default");
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const int64_t p = d.Int("p");
  if (p < 1 || p > 64) return d.Unsupported("p outside of 1 to 64");
  ValueId sum = e.Call(kLgamma, {x});
  for (int64_t j = 1; j < p; ++j) {
    sum = e.Add(sum, e.Call(kLgamma, {e.Sub(x, 0.5 * static_cast<double>(j))}));
  }
  const double pairs = static_cast<double>(p * (p - 1)) / 4;
  return {e.Add(sum, pairs * std::log(kPi))};
}

constexpr DecomposeRow kRows[] = {
    {"aten.special_xlog1py.default", Xlog1py},
    {"aten.ldexp.Tensor", Ldexp},
    {"aten.mvlgamma.default", MultivariateLgamma},
    {"aten.frac.default", Frac},
    {"aten.deg2rad.default", Deg2Rad},
    {"aten.rad2deg.default", Rad2Deg},
    {"aten.sinc.default", Sinc},
    {"aten.special_entr.default", Entropy},
    {"aten.logit.default", Logit},
    {"aten.isposinf.default", IsPositiveInfinity},
    {"aten.isneginf.default", IsNegativeInfinity},
    {"aten.round.decimals", RoundDecimals},
    {"aten.xlogy.Tensor", Xlogy},
    {"aten.logaddexp.default", Logaddexp},
    {"aten.logaddexp2.default", Logaddexp2},
    {"aten.heaviside.default", Heaviside},
};

}  // namespace

absl::Span<const DecomposeRow> PointwiseDecompositions() { return kRows; }

}  // namespace kiln

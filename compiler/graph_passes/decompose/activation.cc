// Activations and their gradients, element by element. Every formula is
// eager's own, so that results agree to rounding.

#include <cmath>

#include "compiler/graph_passes/decompose/decomposition.h"

namespace kiln {
namespace {

constexpr double kInvSqrt2 = 0.70710678118654752440;
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kGeluCube = 0.044715;

// tanh(sqrt(2 / pi) * (x + 0.044715 x^3))
ValueId GeluTanhTerm(Emitter& e, ValueId x) {
  const ValueId cube = e.Mul(e.Mul(x, x), x);
  return e.Tanh(e.Mul(e.Add(x, e.Mul(cube, kGeluCube)), kSqrt2OverPi));
}

Parts Gelu(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  if (d.String("approximate") == "tanh") {
    return {e.Mul(e.Mul(x, 0.5), e.Add(GeluTanhTerm(e, x), 1.0))};
  }
  return {e.Mul(e.Mul(x, 0.5), e.Add(e.Erf(e.Mul(x, kInvSqrt2)), 1.0))};
}

Parts GeluBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  if (d.String("approximate") == "tanh") {
    const ValueId t = GeluTanhTerm(e, x);
    const ValueId left = e.Mul(e.Add(t, 1.0), 0.5);
    const ValueId inner =
        e.Mul(e.Add(e.Mul(e.Mul(x, x), 3 * kGeluCube), 1.0), kSqrt2OverPi);
    const ValueId right =
        e.Mul(e.Mul(e.Mul(x, 0.5), e.Rsub(e.Mul(t, t), 1.0)), inner);
    return {e.Mul(g, e.Add(left, right))};
  }
  const ValueId cdf = e.Mul(e.Add(e.Erf(e.Mul(x, kInvSqrt2)), 1.0), 0.5);
  const ValueId pdf = e.Mul(e.Exp(e.Mul(e.Mul(x, x), -0.5)), kInvSqrt2Pi);
  return {e.Mul(g, e.Add(cdf, e.Mul(x, pdf)))};
}

Parts Silu(Decomposition& d) {
  const ValueId x = d.Compute("self");
  return {d.e.Div(x, d.e.Add(d.e.Exp(d.e.Neg(x)), 1.0))};
}

// g * s * (1 + x * (1 - s))
Parts SiluBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId s = e.Sigmoid(x);
  return {e.Mul(e.Mul(g, s), e.Add(e.Mul(x, e.Rsub(s, 1.0)), 1.0))};
}

Parts SigmoidBackward(Decomposition& d) {
  const ValueId g = d.Compute("grad_output"), y = d.Compute("output");
  return {d.e.Mul(g, d.e.Mul(d.e.Rsub(y, 1.0), y))};
}

Parts TanhBackward(Decomposition& d) {
  const ValueId g = d.Compute("grad_output"), y = d.Compute("output");
  return {d.e.Mul(g, d.e.Rsub(d.e.Mul(y, y), 1.0))};
}

// No arithmetic here, so no need of f32: the dtype stays.
Parts Threshold(Decomposition& d) {
  const ValueId x = d.Tensor("self");
  return {d.e.Where(d.e.Le(x, d.Get("threshold")), d.Float("value"), x)};
}

Parts ThresholdBackward(Decomposition& d) {
  return {d.e.Where(d.e.Le(d.Tensor("self"), d.Get("threshold")), 0.0,
                    d.Tensor("grad_output"))};
}

Parts LeakyRelu(Decomposition& d) {
  const ValueId x = d.Compute("self");
  return {d.e.Where(d.e.Gt(x, 0.0), x, d.e.Mul(x, d.Float("negative_slope")))};
}

Parts LeakyReluBackward(Decomposition& d) {
  const ValueId g = d.Compute("grad_output"), x = d.Tensor("self");
  return {d.e.Where(d.e.Gt(x, 0.0), g, d.e.Mul(g, d.Float("negative_slope")))};
}

// scale * x, and below zero scale * alpha * expm1(x * input_scale).
Parts EluOf(Decomposition& d, double alpha, double scale, double input_scale) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const ValueId below = e.Mul(e.Expm1(e.Mul(x, input_scale)), alpha * scale);
  return {e.Where(e.Gt(x, 0.0), e.Mul(x, scale), below)};
}

Parts Elu(Decomposition& d) {
  return EluOf(d, d.Float("alpha"), d.Float("scale"), d.Float("input_scale"));
}

Parts Celu(Decomposition& d) {
  return EluOf(d, d.Float("alpha"), 1.0, 1.0 / d.Float("alpha"));
}

Parts EluBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self_or_result");
  const double alpha = d.Float("alpha"), scale = d.Float("scale");
  const double input_scale = d.Float("input_scale");
  const ValueId slope =
      d.Bool("is_result")
          ? e.Mul(e.Add(x, alpha * scale), input_scale)
          : e.Mul(e.Exp(e.Mul(x, input_scale)), alpha * scale * input_scale);
  return {e.Where(e.Le(x, 0.0), e.Mul(g, slope), e.Mul(g, scale))};
}

Parts Hardtanh(Decomposition& d) {
  return {d.e.Call("aten.clamp.default",
                   {d.Tensor("self"), d.Get("min_val"), d.Get("max_val")})};
}

Parts HardtanhBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Tensor("self");
  const ValueId outside =
      e.Call("aten.logical_or.default",
             {e.Le(x, d.Get("min_val")), e.Ge(x, d.Get("max_val"))});
  return {e.Where(outside, 0.0, d.Tensor("grad_output"))};
}

// clamp(x + 3, 0, 6)
ValueId HardSixth(Emitter& e, ValueId x) {
  return e.ClampMax(e.ClampMin(e.Add(x, 3.0), 0.0), 6.0);
}

Parts Hardsigmoid(Decomposition& d) {
  return {d.e.Div(HardSixth(d.e, d.Compute("self")), 6.0)};
}

Parts HardsigmoidBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId inside = e.And(e.Gt(x, -3.0), e.Lt(x, 3.0));
  return {e.Where(inside, e.Div(g, 6.0), 0.0)};
}

Parts Hardswish(Decomposition& d) {
  const ValueId x = d.Compute("self");
  return {d.e.Div(d.e.Mul(x, HardSixth(d.e, x)), 6.0)};
}

Parts HardswishBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId middle = e.Mul(g, e.Add(e.Div(x, 3.0), 0.5));
  return {e.Where(e.Lt(x, -3.0), 0.0, e.Where(e.Le(x, 3.0), middle, g))};
}

// Zero where |x| <= lambda; NaN stays.
Parts Hardshrink(Decomposition& d) {
  const ValueId x = d.Tensor("self");
  return {d.e.Where(d.e.Le(d.e.Abs(x), d.Get("lambd")), 0.0, x)};
}

Parts HardshrinkBackward(Decomposition& d) {
  return {d.e.Where(d.e.Le(d.e.Abs(d.Tensor("self")), d.Get("lambd")), 0.0,
                    d.Tensor("grad_out"))};
}

Parts Softshrink(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const double lambda = d.Float("lambd");
  const ValueId below =
      e.Where(e.Lt(x, -lambda), e.Add(x, lambda), e.Mul(x, 0.0));
  return {e.Where(e.Gt(x, lambda), e.Sub(x, lambda), below)};
}

Parts SoftshrinkBackward(Decomposition& d) {
  return {d.e.Where(d.e.Le(d.e.Abs(d.Tensor("self")), d.Get("lambd")), 0.0,
                    d.Tensor("grad_output"))};
}

Parts Softplus(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const double beta = d.Float("beta");
  const ValueId scaled = e.Mul(x, beta);
  return {e.Where(e.Gt(scaled, d.Get("threshold")), x,
                  e.Div(e.Log1p(e.Exp(scaled)), beta))};
}

// g * z / (z + 1) with z = exp(x * beta)
Parts SoftplusBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId scaled = e.Mul(x, d.Float("beta"));
  return {e.Where(e.Gt(scaled, d.Get("threshold")), g,
                  e.Mul(g, e.Sigmoid(scaled)))};
}

Parts Mish(Decomposition& d) {
  const ValueId x = d.Compute("self");
  return {d.e.Mul(x, d.e.Tanh(d.e.Log1p(d.e.Exp(x))))};
}

Parts MishBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId t = e.Tanh(e.Log1p(e.Exp(x)));
  const ValueId slope = e.Mul(e.Mul(x, e.Sigmoid(x)), e.Rsub(e.Mul(t, t), 1.0));
  return {e.Mul(g, e.Add(t, slope))};
}

Parts Glu(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const int64_t dim = d.Dim("dim", e.rank(x));
  const SymExpr half = d.result(0).sizes[dim];
  return {e.Mul(e.Slice(x, dim, 0, half, 1),
                e.Sigmoid(e.Slice(x, dim, half, half * 2, 1)))};
}

// min(x, 0) - log1p(exp(-|x|))
Parts LogSigmoid(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  const ValueId z = e.Exp(e.Neg(e.Abs(x)));
  return {e.Sub(e.ClampMax(x, 0.0), e.Log1p(z)), z};
}

Parts LogSigmoidBackward(Decomposition& d) {
  return {d.e.Mul(d.Compute("grad_output"),
                  d.e.Sigmoid(d.e.Neg(d.Compute("self"))))};
}

Parts Prelu(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId x = d.Compute("self");
  return {e.Where(e.Gt(x, 0.0), x, e.Mul(x, d.Compute("weight")))};
}

Parts PreluBackward(Decomposition& d) {
  Emitter& e = d.e;
  const ValueId g = d.Compute("grad_output"), x = d.Compute("self");
  const ValueId above = e.Gt(x, 0.0);
  return {e.Where(above, g, e.Mul(g, d.Compute("weight"))),
          e.Where(above, 0.0, e.Mul(g, x))};
}

constexpr DecomposeRow kRows[] = {
    {"aten.glu.default", Glu},
    {"aten.log_sigmoid_forward.default", LogSigmoid},
    {"aten.log_sigmoid_backward.default", LogSigmoidBackward},
    {"aten._prelu_kernel.default", Prelu},
    {"aten._prelu_kernel_backward.default", PreluBackward},
    {"aten.gelu.default", Gelu},
    {"aten.gelu_backward.default", GeluBackward},
    {"aten.silu.default", Silu},
    {"aten.silu_backward.default", SiluBackward},
    {"aten.sigmoid_backward.default", SigmoidBackward},
    {"aten.tanh_backward.default", TanhBackward},
    {"aten.threshold.default", Threshold},
    {"aten.threshold_backward.default", ThresholdBackward},
    {"aten.leaky_relu.default", LeakyRelu},
    {"aten.leaky_relu_backward.default", LeakyReluBackward},
    {"aten.elu.default", Elu},
    {"aten.elu_backward.default", EluBackward},
    {"aten.celu.default", Celu},
    {"aten.hardtanh.default", Hardtanh},
    {"aten.hardtanh_backward.default", HardtanhBackward},
    {"aten.hardsigmoid.default", Hardsigmoid},
    {"aten.hardsigmoid_backward.default", HardsigmoidBackward},
    {"aten.hardswish.default", Hardswish},
    {"aten.hardswish_backward.default", HardswishBackward},
    {"aten.hardshrink.default", Hardshrink},
    {"aten.hardshrink_backward.default", HardshrinkBackward},
    {"aten.softshrink.default", Softshrink},
    {"aten.softshrink_backward.default", SoftshrinkBackward},
    {"aten.softplus.default", Softplus},
    {"aten.softplus_backward.default", SoftplusBackward},
    {"aten.mish.default", Mish},
    {"aten.mish_backward.default", MishBackward},
};

}  // namespace

absl::Span<const DecomposeRow> ActivationDecompositions() { return kRows; }

}  // namespace kiln

// Activations and their gradients, each from its definition in PyTorch's
// documentation.

#include <cmath>
#include <string>

#include "compiler/reference/pointwise.h"
#include "compiler/reference/reference_table.h"
#include "compiler/reference/rows.h"
#include "compiler/reference/special_functions.h"

namespace kiln {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double SoftPlus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

RefResults Gelu(RefCall& call) {
  if (call.String("approximate") == "tanh") return UnaryFloat<GeluTanh>(call);
  return UnaryFloat<[](double x) { return x * NormalCdf(x); }>(call);
}

RefResults GeluBackward(RefCall& call) {
  if (call.String("approximate") == "tanh") {
    return Backward<[](double g, double x) { return g * GeluTanhGradient(x); }>(
        call, "grad_output", "self");
  }
  return Backward<[](double g, double x) {
    return g * (NormalCdf(x) + x * NormalDensity(x));
  }>(call, "grad_output", "self");
}

// fn takes the incoming gradient and the operator's input, or its output.
template <auto fn>
RefResults FromInput(RefCall& call) {
  return Backward<fn>(call, "grad_output", "self");
}
template <auto fn>
RefResults FromOutput(RefCall& call) {
  return Backward<fn>(call, "grad_output", "output");
}

constexpr auto kSiluSlope = [](double g, double x) {
  const double s = Sigmoid(x);
  return g * s * (1 + x * (1 - s));
};

RefResults ThresholdBackward(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"grad_output", "self"});
  const double threshold = call.Float("threshold");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    if (in[1].F(k) <= threshold) in[0].f[k] = 0;
  }
  for (size_t k = 0; k < in[0].i.size(); ++k) {
    if (in[1].F(k) <= threshold) in[0].i[k] = 0;
  }
  return {call.Make(0, in[0])};
}

RefResults Threshold(RefCall& call) {
  Elements x = call.Load("self");
  const double threshold = call.Float("threshold");
  const RefNumber value = call.Number("value");
  for (double& v : x.f) v = v <= threshold ? value.F() : v;
  for (int64_t& v : x.i) v = v <= threshold ? value.i : v;
  return {call.Make(0, x)};
}

RefResults LeakyRelu(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double slope = call.Float("negative_slope");
  for (double& v : x.f) v = v > 0 ? v : v * slope;
  return {call.Make(0, x)};
}

RefResults LeakyReluBackward(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"grad_output", "self"});
  const double slope = call.Float("negative_slope");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    if (!(in[1].F(k) > 0)) in[0].f[k] *= slope;
  }
  return {call.Make(0, in[0])};
}

RefResults Elu(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double alpha = call.Float("alpha");
  const double scale = call.Float("scale");
  const double input_scale = call.Float("input_scale");
  for (double& v : x.f) {
    v = v > 0 ? scale * v : scale * alpha * std::expm1(v * input_scale);
  }
  return {call.Make(0, x)};
}

RefResults EluBackward(RefCall& call) {
  std::vector<Elements> in =
      LoadTogether(call, {"grad_output", "self_or_result"});
  const double alpha = call.Float("alpha");
  const double scale = call.Float("scale");
  const double input_scale = call.Float("input_scale");
  const bool is_result = call.Bool("is_result");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    const double x = in[1].F(k);
    const double below =
        is_result ? input_scale * (x + alpha * scale)
                  : input_scale * alpha * scale * std::exp(x * input_scale);
    in[0].f[k] *= x <= 0 ? below : scale;
  }
  return {call.Make(0, in[0])};
}

RefResults Hardtanh(RefCall& call) {
  Elements x = call.Load("self");
  const RefNumber low = call.Number("min_val");
  const RefNumber high = call.Number("max_val");
  for (double& v : x.f) v = v < low.F() ? low.F() : v > high.F() ? high.F() : v;
  for (int64_t& v : x.i) {
    v = v < low.F()    ? static_cast<int64_t>(low.F())
        : v > high.F() ? static_cast<int64_t>(high.F())
                       : v;
  }
  return {call.Make(0, x)};
}

RefResults HardtanhBackward(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"grad_output", "self"});
  const double low = call.Float("min_val");
  const double high = call.Float("max_val");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    if (in[1].F(k) <= low || in[1].F(k) >= high) in[0].f[k] = 0;
  }
  return {call.Make(0, in[0])};
}

RefResults Softplus(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double beta = call.Float("beta");
  const double threshold = call.Float("threshold");
  for (double& v : x.f) {
    v = v * beta > threshold ? v : std::log1p(std::exp(v * beta)) / beta;
  }
  return {call.Make(0, x)};
}

RefResults SoftplusBackward(RefCall& call) {
  std::vector<Elements> in = LoadTogether(call, {"grad_output", "self"});
  const double beta = call.Float("beta");
  const double threshold = call.Float("threshold");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    const double x = in[1].F(k) * beta;
    if (x <= threshold) in[0].f[k] *= Sigmoid(x);
  }
  return {call.Make(0, in[0])};
}

RefResults Hardshrink(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double lambda = call.Float("lambd");
  for (double& v : x.f) v = v >= -lambda && v <= lambda ? 0 : v;
  return {call.Make(0, x)};
}

RefResults Softshrink(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double lambda = call.Float("lambd");
  for (double& v : x.f) {
    v = v > lambda ? v - lambda : v < -lambda ? v + lambda : v * 0;
  }
  return {call.Make(0, x)};
}

RefResults Celu(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  const double alpha = call.Float("alpha");
  for (double& v : x.f) v = v > 0 ? v : alpha * std::expm1(v / alpha);
  return {call.Make(0, x)};
}

// The gradient where |self| is beyond lambda, else zero.
RefResults ShrinkBackward(RefCall& call, absl::string_view grad) {
  std::vector<Elements> in = LoadTogether(call, {grad, "self"});
  const double lambda = call.Float("lambd");
  for (size_t k = 0; k < in[0].f.size(); ++k) {
    if (std::fabs(in[1].F(k)) <= lambda) in[0].f[k] = 0;
  }
  return {call.Make(0, in[0])};
}
RefResults HardshrinkBackward(RefCall& call) {
  return ShrinkBackward(call, "grad_out");
}
RefResults SoftshrinkBackward(RefCall& call) {
  return ShrinkBackward(call, "grad_output");
}

constexpr auto kHardSigmoid = [](double x) {
  return std::fmin(std::fmax(x + 3, 0), 6) / 6;
};

double MishSlope(double x) {
  const double t = std::tanh(SoftPlus(x));
  return t + x * (1 - t * t) * Sigmoid(x);
}

double HardswishSlope(double x) {
  return x < -3 ? 0 : x <= 3 ? x / 3 + 0.5 : 1;
}

constexpr auto kHardSigmoidSlope = [](double g, double x) {
  return x > -3 && x < 3 ? g / 6 : 0;
};

RefResults Glu(RefCall& call) {
  const Elements x = call.Load("self");
  Elements y = Elements::Floats(call.result(0).sizes);
  const auto from = CutAlong(x.sizes, call.Int("dim")).members;
  const auto to = CutAlong(y.sizes, call.Int("dim")).members;
  for (size_t r = 0; r < to.size(); ++r) {
    for (size_t k = 0; k < to[r].size(); ++k) {
      const double gate = x.F(from[r][to[r].size() + k]);
      y.f[to[r][k]] = x.F(from[r][k]) / (1 + std::exp(-gate));
    }
  }
  return {call.Make(0, y)};
}

RefResults LogSigmoid(RefCall& call) {
  Elements x = call.Load("self").AsFloats();
  Elements kept = Elements::Floats(call.result(1).sizes);
  for (int64_t k = 0; k < x.count(); ++k) {
    const double z = std::exp(-std::fabs(x.f[k]));
    if (k < kept.count()) kept.f[k] = z;
    x.f[k] = (x.f[k] < 0 ? x.f[k] : x.f[k] * 0) - std::log1p(z);
  }
  return {call.Make(0, x), call.Make(1, kept)};
}

RefResults LogSigmoidBackward(RefCall& call) {
  Elements g = call.Load("grad_output").AsFloats();
  const Elements x = call.Load("self");
  for (int64_t k = 0; k < g.count(); ++k) g.f[k] /= 1 + std::exp(x.F(k));
  return {call.Make(0, g)};
}

RefResults Prelu(RefCall& call) {
  const Sizes& sizes = call.result(0).sizes;
  Elements x = call.Load("self").AsFloats().Broadcast(sizes);
  const Elements w = call.Load("weight").Broadcast(sizes);
  for (int64_t k = 0; k < x.count(); ++k) {
    if (!(x.f[k] > 0)) x.f[k] *= w.F(k);
  }
  return {call.Make(0, x)};
}

RefResults PreluBackward(RefCall& call) {
  const Sizes& sizes = call.result(0).sizes;
  Elements g = call.Load("grad_output").AsFloats().Broadcast(sizes);
  const Elements x = call.Load("self").Broadcast(sizes);
  const Elements w = call.Load("weight").Broadcast(sizes);
  Elements slope = Elements::Floats(sizes);
  for (int64_t k = 0; k < g.count(); ++k) {
    if (x.F(k) > 0) continue;
    slope.f[k] = g.f[k] * x.F(k);
    g.f[k] *= w.F(k);
  }
  return {call.Make(0, g), call.Make(1, slope)};
}

constexpr ReferenceRow kRows[] = {
    {"aten.glu.default", Glu},
    {"aten.log_sigmoid_forward.default", LogSigmoid},
    {"aten.log_sigmoid_backward.default", LogSigmoidBackward},
    {"aten._prelu_kernel.default", Prelu},
    {"aten._prelu_kernel_backward.default", PreluBackward},
    {"aten.gelu.default", Gelu},
    {"aten.gelu_backward.default", GeluBackward},
    {"aten.silu.default", UnaryFloat<[](double x) { return x * Sigmoid(x); }>},
    {"aten.silu_backward.default", FromInput<kSiluSlope>},
    {"aten.sigmoid_backward.default",
     FromOutput<[](double g, double y) { return g * y * (1 - y); }>},
    {"aten.tanh_backward.default",
     FromOutput<[](double g, double y) { return g * (1 - y * y); }>},
    {"aten.threshold.default", Threshold},
    {"aten.threshold_backward.default", ThresholdBackward},
    {"aten.leaky_relu.default", LeakyRelu},
    {"aten.leaky_relu_backward.default", LeakyReluBackward},
    {"aten.elu.default", Elu},
    {"aten.elu_backward.default", EluBackward},
    {"aten.celu.default", Celu},
    {"aten.hardshrink_backward.default", HardshrinkBackward},
    {"aten.softshrink_backward.default", SoftshrinkBackward},
    {"aten.hardtanh.default", Hardtanh},
    {"aten.hardtanh_backward.default", HardtanhBackward},
    {"aten.softplus.default", Softplus},
    {"aten.softplus_backward.default", SoftplusBackward},
    {"aten.hardshrink.default", Hardshrink},
    {"aten.softshrink.default", Softshrink},
    {"aten.hardsigmoid.default", UnaryFloat<kHardSigmoid>},
    {"aten.hardsigmoid_backward.default", FromInput<kHardSigmoidSlope>},
    {"aten.hardswish.default",
     UnaryFloat<[](double x) { return x * kHardSigmoid(x); }>},
    {"aten.hardswish_backward.default",
     FromInput<[](double g, double x) { return g * HardswishSlope(x); }>},
    {"aten.mish.default",
     UnaryFloat<[](double x) { return x * std::tanh(SoftPlus(x)); }>},
    {"aten.mish_backward.default",
     FromInput<[](double g, double x) { return g * MishSlope(x); }>},
};

}  // namespace

absl::Span<const ReferenceRow> ActivationReferences() { return kRows; }

}  // namespace kiln

// Attention by cuDNN against its definition in doubles. Skipped without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "proto/base/status.h"
#include "tests/gpu/cuda_opener.h"
#include "tests/runtime/extern_kernels/call_runner.h"

namespace kiln {
namespace {

struct Shape {
  std::string name;
  int64_t b = 2, h = 4, x = 4, m = 128, n = 128, e = 64, v = 64;
  DType dtype = DType::kBFloat16;
  bool causal = false;
  int64_t window = 0;
  std::vector<int64_t> bias = {};  // sizes; 1 where it is stretched
  bool heads_inside = false;       // memory is [b, m, h, e]
};

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    opened_ = OpenCudaOrNull();
    if (opened_.device == nullptr) GTEST_SKIP() << "no GPU";
  }

  absl::Status Run(absl::string_view name, std::vector<Operand*> inputs,
                   std::vector<Operand*> outputs,
                   std::vector<ExternAttribute> attributes) {
    ExternCall call;
    call.name = name;
    call.attributes = attributes;
    return RunCall(call, inputs, outputs, *opened_.device, *opened_.externs);
  }

  OpenedDevice opened_;
};

Operand Heads(const Shape& s, int64_t h, int64_t m, int64_t e) {
  return Operand::Dense(s.dtype, {s.b, h, m, e},
                        s.heads_inside ? std::vector<int>{0, 2, 1, 3}
                                       : std::vector<int>{0, 1, 2, 3});
}

void FillNormal(Operand& operand, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const auto count = static_cast<int64_t>(operand.bytes().size()) /
                     SizeInBytes(operand.meta().dtype);
  for (int64_t i = 0; i < count; ++i) operand.Set(i, normal(random));
}

// A stretched bias as the call has it: strides of 0.
Operand Bias(const Shape& s) {
  std::vector<int64_t> strides(4);
  int64_t step = 1;
  for (size_t d = 4; d-- > 0;) {
    strides[d] = s.bias[d] == 1 ? 0 : step;
    step *= s.bias[d];
  }
  return Operand(s.dtype, {s.b, s.h, s.m, s.n}, strides);
}

using Doubles = std::vector<double>;

// How far `found` is from `due`, relative to the length of `due`.
double Distance(const Operand& found, const Doubles& due) {
  double apart = 0, length = 0;
  size_t i = 0;
  ForEachIndex(found.sizes(), [&](const std::vector<int64_t>& at) {
    const double d = found.At(at) - due[i];
    apart += d * d;
    length += due[i] * due[i];
    ++i;
  });
  return std::sqrt(apart / length);
}

struct Due {
  Doubles out, logsumexp, dq, dk, dv;
};

// By definition, from operands as they are rounded.
Due Attend(const Shape& s, const Operand& q, const Operand& k, const Operand& v,
           const Operand* bias, const Operand& g, double scale) {
  Due due{Doubles(s.b * s.h * s.m * s.v), Doubles(s.b * s.h * s.m),
          Doubles(s.b * s.h * s.m * s.e), Doubles(s.b * s.x * s.n * s.e),
          Doubles(s.b * s.x * s.n * s.v)};
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.h; ++h)
      for (int64_t m = 0; m < s.m; ++m) {
        const int64_t x = h / (s.h / s.x), row = (b * s.h + h) * s.m + m;
        Doubles p(s.n), dp(s.n);
        double top = -INFINITY, sum = 0, delta = 0;
        for (int64_t n = 0; n < s.n; ++n) {
          for (int64_t e = 0; e < s.e; ++e)
            p[n] += q.At({b, h, m, e}) * k.At({b, x, n, e});
          p[n] = p[n] * scale + (bias ? bias->At({b, h, m, n}) : 0);
          if ((s.causal && n > m) || (s.window > 0 && n <= m - s.window))
            p[n] = -INFINITY;
          top = std::max(top, p[n]);
        }
        for (double& w : p) sum += w = std::exp(w - top);
        due.logsumexp[row] = top + std::log(sum);
        for (int64_t n = 0; n < s.n; ++n) {
          p[n] /= sum;
          for (int64_t e = 0; e < s.v; ++e) {
            due.out[row * s.v + e] += p[n] * v.At({b, x, n, e});
            dp[n] += g.At({b, h, m, e}) * v.At({b, x, n, e});
            due.dv[((b * s.x + x) * s.n + n) * s.v + e] +=
                p[n] * g.At({b, h, m, e});
          }
          delta += p[n] * dp[n];
        }
        for (int64_t n = 0; n < s.n; ++n) {
          const double ds = p[n] * (dp[n] - delta) * scale;
          for (int64_t e = 0; e < s.e; ++e) {
            due.dq[row * s.e + e] += ds * k.At({b, x, n, e});
            due.dk[((b * s.x + x) * s.n + n) * s.e + e] +=
                ds * q.At({b, h, m, e});
          }
        }
      }
  return due;
}

std::vector<Shape> Shapes() {
  return {{.name = "plain"},
          {.name = "causal", .causal = true, .heads_inside = true},
          {.name = "half", .dtype = DType::kFloat16, .causal = true},
          {.name = "grouped", .x = 2, .e = 128, .v = 128, .causal = true},
          {.name = "odd", .m = 77, .n = 131, .e = 32, .v = 32},
          {.name = "one query", .m = 1, .n = 70},
          {.name = "wide", .b = 1, .h = 2, .x = 2, .e = 256, .v = 256},
          {.name = "two widths", .e = 128, .v = 64},
          {.name = "window", .m = 256, .n = 256, .causal = true, .window = 40},
          {.name = "bias", .bias = {2, 4, 128, 128}},
          {.name = "bias of batches", .bias = {2, 1, 128, 128}},
          {.name = "bias of keys", .bias = {2, 1, 1, 128}},
          {.name = "bias, causal", .causal = true, .bias = {1, 4, 128, 128}}};
}

TEST_F(CudaAttention, GivesWhatItsDefinitionDoes) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name);
    std::mt19937 random(7);
    Operand q = Heads(s, s.h, s.m, s.e), k = Heads(s, s.x, s.n, s.e),
            v = Heads(s, s.x, s.n, s.v), g = Heads(s, s.h, s.m, s.v),
            out = Heads(s, s.h, s.m, s.v);
    Operand logsumexp =
        Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
    Operand dq = Heads(s, s.h, s.m, s.e), dk = Heads(s, s.x, s.n, s.e),
            dv = Heads(s, s.x, s.n, s.v);
    Operand bias = s.bias.empty() ? Operand(s.dtype, {1}, {1}) : Bias(s);
    for (Operand* operand : {&q, &k, &v, &g, &bias})
      FillNormal(*operand, random);
    for (Operand* operand : {&out, &logsumexp, &dq, &dk, &dv})
      operand->FillWith(NAN);
    const double scale = 1 / std::sqrt(static_cast<double>(s.e));
    std::vector<ExternAttribute> attributes = {{"scale", scale}};
    if (s.causal)
      attributes.push_back({"causal", absl::string_view("top_left")});
    if (s.window > 0) attributes.push_back({"window", s.window});
    std::vector<Operand*> inputs = {&q, &k, &v},
                          again = {&g, &q, &k, &v, &out, &logsumexp};
    if (!s.bias.empty()) {
      attributes.push_back({"biased", int64_t{1}});
      inputs.push_back(&bias);
      again.push_back(&bias);
    }
    absl::Status status =
        Run("attention", inputs, {&out, &logsumexp}, attributes);
    ASSERT_TRUE(status.ok()) << status;
    status = Run("attention_backward", again, {&dq, &dk, &dv}, attributes);
    ASSERT_TRUE(status.ok()) << status;
    const Due due =
        Attend(s, q, k, v, s.bias.empty() ? nullptr : &bias, g, scale);
    // Weights and results are rounded to 8 bits once each; f16 has 11.
    constexpr double kNear = 4e-3;
    EXPECT_LT(Distance(out, due.out), kNear);
    EXPECT_LT(Distance(logsumexp, due.logsumexp), 1e-5);
    EXPECT_LT(Distance(dq, due.dq), kNear);
    EXPECT_LT(Distance(dk, due.dk), kNear);
    EXPECT_LT(Distance(dv, due.dv), kNear);
  }
}

// Of equal weights, values that are the unit matrix show which ones forward left,
// and a gradient that is it those that backward left.
TEST_F(CudaAttention, DropsTheSameWeightsInBothDirections) {
  const Shape s{.name = "dropout", .m = 64, .n = 64};
  Operand q = Heads(s, s.h, s.m, s.e), k = q, v = q, g = q, out = q, dq = q,
          dk = q, dv = q;
  Operand logsumexp =
      Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
  Operand seed(DType::kInt64, {}, {}), offset = seed;
  seed.Set(0, 1234);
  ForEachIndex(v.sizes(), [&](const std::vector<int64_t>& at) {
    v.Set(v.Offset(at), at[2] == at[3]);
    g.Set(g.Offset(at), at[2] == at[3]);
  });
  const std::vector<ExternAttribute> attributes = {{"dropout", 0.25},
                                                   {"scale", 1.0}};
  absl::Status status = Run("attention", {&q, &k, &v, &seed, &offset},
                            {&out, &logsumexp}, attributes);
  ASSERT_TRUE(status.ok()) << status;
  status = Run("attention_backward",
               {&g, &q, &k, &v, &out, &logsumexp, &seed, &offset},
               {&dq, &dk, &dv}, attributes);
  ASSERT_TRUE(status.ok()) << status;
  int kept = 0, apart = 0;
  ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& at) {
    const bool left = out.At(at) != 0;
    kept += left;
    apart += left != (dv.At({at[0], at[1], at[3], at[2]}) != 0);
  });
  EXPECT_EQ(apart, 0);
  EXPECT_NEAR(kept / (2.0 * 4 * 64 * 64), 0.75, 0.02);
}

TEST_F(CudaAttention, RefusesWhatNoKernelHas) {
  const std::vector<ExternAttribute> attributes = {{"scale", 1.0}};
  const auto reason = [&](const Shape& s) {
    Operand q = Heads(s, s.h, s.m, s.e), k = Heads(s, s.x, s.n, s.e),
            v = Heads(s, s.x, s.n, s.v), out = Heads(s, s.h, s.m, s.v);
    Operand logsumexp =
        Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
    return ReasonOf(
        Run("attention", {&q, &k, &v}, {&out, &logsumexp}, attributes));
  };
  for (const Shape& s : std::vector<Shape>{{.name = "36", .e = 36},
                                           {.name = "264", .e = 264},
                                           {.name = "no keys", .n = 0},
                                           {.dtype = DType::kFloat32}}) {
    EXPECT_EQ(reason(s), ErrorReason::kUnsupportedOp) << s.name;
  }
  // Three heads of two keys.
  EXPECT_EQ(reason({.name = "shares", .h = 3, .x = 2}),
            ErrorReason::kArtifactCorrupt);
}

}  // namespace
}  // namespace kiln

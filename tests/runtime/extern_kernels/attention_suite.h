#ifndef KILN_TESTS_RUNTIME_EXTERN_KERNELS_ATTENTION_SUITE_H_
#define KILN_TESTS_RUNTIME_EXTERN_KERNELS_ATTENTION_SUITE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/extern_kernels/call_runner.h"
#include "tests/runtime/extern_kernels/operand.h"

// Attention by its definition, in doubles, for tests of what computes it.

namespace kiln {

struct AttentionShape {
  std::string name;
  int64_t b = 2, h = 4, x = 4, m = 128, n = 128, e = 64, v = 64;
  DType dtype = DType::kBFloat16;
  bool causal = false;
  bool from_the_end = false;  // causal, the last row sees all
  int64_t window = 0;
  std::vector<int64_t> bias = {};    // sizes; 1 where it is stretched
  bool heads_inside = false;         // memory is [b, m, h, e]
  std::optional<double> scale = {};  // none: 1 / sqrt(e)
};

inline Operand Heads(const AttentionShape& s, int64_t h, int64_t m, int64_t e) {
  return Operand::Dense(s.dtype, {s.b, h, m, e},
                        s.heads_inside ? std::vector<int>{0, 2, 1, 3}
                                       : std::vector<int>{0, 1, 2, 3});
}

inline void FillNormal(Operand& operand, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const auto count = static_cast<int64_t>(operand.bytes().size()) /
                     SizeInBytes(operand.meta().dtype);
  for (int64_t i = 0; i < count; ++i) operand.Set(i, normal(random));
}

// A stretched bias as the call has it: strides of 0.
inline Operand Bias(const AttentionShape& s) {
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
inline double Distance(const Operand& found, const Doubles& due) {
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
inline Due Attend(const AttentionShape& s, const Operand& q, const Operand& k,
                  const Operand& v, const Operand* bias, const Operand& g,
                  double scale) {
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
          const int64_t last = m + (s.from_the_end ? s.n - s.m : 0);
          if (((s.causal || s.from_the_end) && n > last) ||
              (s.window > 0 && n <= last - s.window))
            p[n] = -INFINITY;
          top = std::max(top, p[n]);
        }
        if (top == -INFINITY) continue;  // it sees nothing: all is 0
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

// The most that results are apart from their definition (Distance).
struct Near {
  double values, logsumexp;
};

// Forward and backward of a shape, run by `library`, are what their definition gives.
inline void ExpectAsDefined(const AttentionShape& s, Near near, Device& device,
                            ExternLibrary& library) {
  std::mt19937 random(7);
  Operand q = Heads(s, s.h, s.m, s.e), k = Heads(s, s.x, s.n, s.e),
          v = Heads(s, s.x, s.n, s.v), g = Heads(s, s.h, s.m, s.v),
          out = Heads(s, s.h, s.m, s.v);
  Operand logsumexp =
      Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
  Operand dq = Heads(s, s.h, s.m, s.e), dk = Heads(s, s.x, s.n, s.e),
          dv = Heads(s, s.x, s.n, s.v);
  Operand bias = s.bias.empty() ? Operand(s.dtype, {1}, {1}) : Bias(s);
  for (Operand* operand : {&q, &k, &v, &g, &bias}) FillNormal(*operand, random);
  for (Operand* operand : {&out, &logsumexp, &dq, &dk, &dv})
    operand->FillWith(NAN);
  const double scale =
      s.scale.value_or(1 / std::sqrt(static_cast<double>(s.e)));
  std::vector<ExternAttribute> attributes = {{"scale", scale}};
  if (s.causal) attributes.push_back({"causal", absl::string_view("top_left")});
  if (s.from_the_end)
    attributes.push_back({"causal", absl::string_view("bottom_right")});
  if (s.window > 0) attributes.push_back({"window", s.window});
  std::vector<Operand*> inputs = {&q, &k, &v},
                        again = {&g, &q, &k, &v, &out, &logsumexp};
  if (!s.bias.empty()) {
    attributes.push_back({"biased", int64_t{1}});
    inputs.push_back(&bias);
    again.push_back(&bias);
  }
  const auto run = [&](absl::string_view name,
                       const std::vector<Operand*>& operands,
                       const std::vector<Operand*>& results) {
    ExternCall call;
    call.name = name;
    call.attributes = attributes;
    return RunCall(call, operands, results, device, library);
  };
  absl::Status status = run("attention", inputs, {&out, &logsumexp});
  ASSERT_TRUE(status.ok()) << status;
  status = run("attention_backward", again, {&dq, &dk, &dv});
  ASSERT_TRUE(status.ok()) << status;
  const Due due =
      Attend(s, q, k, v, s.bias.empty() ? nullptr : &bias, g, scale);
  EXPECT_LT(Distance(out, due.out), near.values);
  EXPECT_LT(Distance(logsumexp, due.logsumexp), near.logsumexp);
  EXPECT_LT(Distance(dv, due.dv), near.values);
  // Weights are equal, whatever the scores.
  if (s.n == 1 || static_cast<float>(scale) == 0) return;
  EXPECT_LT(Distance(dq, due.dq), near.values);
  EXPECT_LT(Distance(dk, due.dk), near.values);
}

}  // namespace kiln

#endif  // KILN_TESTS_RUNTIME_EXTERN_KERNELS_ATTENTION_SUITE_H_

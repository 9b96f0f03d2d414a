// Attention in blocks on the CPU against its definition in doubles, with oneDNN's
// products and with our own.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/status.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/cpu_externs.h"
#include "tests/runtime/extern_kernels/attention_suite.h"
#include "tests/runtime/extern_kernels/call_runner.h"

namespace kiln {
namespace {

class CpuAttention : public testing::TestWithParam<bool> {
 protected:
  absl::Status Run(absl::string_view name, std::vector<Operand*> inputs,
                   std::vector<Operand*> outputs,
                   std::vector<ExternAttribute> attributes) {
    ExternCall call;
    call.name = name;
    call.attributes = attributes;
    return RunCall(call, inputs, outputs, *device_, *externs_);
  }

  // GetParam(): oneDNN is there.
  const std::shared_ptr<CpuDevice> device_ =
      std::make_shared<CpuDevice>(CpuDeviceOptions{.threads = 3});
  const std::shared_ptr<ExternLibrary> externs_ =
      GetParam() ? MakeCpuExterns(device_, {})
                 : MakeCpuExternsWith(device_, absl::NotFoundError("none"));
};
INSTANTIATE_TEST_SUITE_P(OneDnn, CpuAttention, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Found" : "Lacking";
                         });

// Small heads; what meets in a block is at most 128 queries, or 64 of a causal mask, and
// 256 keys.
AttentionShape Shape(std::string name, int64_t m, int64_t n,
                     DType dtype = DType::kFloat32) {
  return {.name = std::move(name),
          .b = 1,
          .h = 2,
          .x = 2,
          .m = m,
          .n = n,
          .e = 8,
          .v = 8,
          .dtype = dtype};
}

std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes = {
      Shape("plain", 40, 50),
      Shape("many blocks", 270, 600),
      Shape("bf16", 40, 300, DType::kBFloat16),
      Shape("f16", 140, 50, DType::kFloat16),
      Shape("one query", 1, 270),
      Shape("one query, bf16", 1, 270, DType::kBFloat16),
      Shape("short", 3, 7),
      Shape("one key", 5, 1)};
  const auto add = [&](AttentionShape shape) -> AttentionShape& {
    return shapes.emplace_back(std::move(shape));
  };
  AttentionShape& widths = add(Shape("odd widths", 33, 65));
  widths.e = 37, widths.v = 5;
  AttentionShape& row = add(Shape("one query of odd widths", 1, 603));
  row.e = 37, row.v = 13, row.h = 6, row.heads_inside = true;
  AttentionShape& batches = add(Shape("batches", 20, 30));
  batches.b = 3, batches.h = 6, batches.heads_inside = true;
  add(Shape("causal", 300, 300)).causal = true;
  add(Shape("causal bf16", 70, 70, DType::kBFloat16)).causal = true;
  add(Shape("causal to the end", 140, 530)).from_the_end = true;
  add(Shape("rows before all keys", 300, 40)).from_the_end = true;
  AttentionShape& window = add(Shape("window", 520, 520));
  window.causal = true, window.window = 40;
  add(Shape("window over all that follow", 150, 300)).window = 7;
  add(Shape("a scale of 0", 140, 530)).scale = 0;
  add(Shape("a scale that is 0 as a float", 140, 530)).scale = 1e-60;
  for (const std::vector<int64_t>& bias : std::vector<std::vector<int64_t>>{
           {1, 2, 40, 300}, {1, 1, 1, 300}, {1, 1, 40, 1}}) {
    add(Shape("bias", 40, 300)).bias = bias;
    AttentionShape& masked =
        add(Shape("bias, causal", 40, 300, DType::kBFloat16));
    masked.bias = bias, masked.causal = true;
  }
  return shapes;
}

TEST_P(CpuAttention, GivesWhatItsDefinitionDoes) {
  for (const AttentionShape& s : Shapes()) {
    SCOPED_TRACE(s.name);
    // Half types are rounded to 8 bits of fraction, or 11, once.
    const double near = s.dtype == DType::kFloat32 ? 2e-6 : 4e-3;
    ExpectAsDefined(s, {near, 1e-6}, *device_, *externs_);
  }
}

// What other rows see is not touched by those that see nothing, even by a bias of -inf.
TEST_P(CpuAttention, ARowThatSeesNothingIsZero) {
  AttentionShape s = Shape("blind", 3, 300);
  s.h = s.x = 1, s.bias = {1, 1, 3, 300};
  std::mt19937 random(7);
  Operand q = Heads(s, 1, s.m, s.e), k = Heads(s, 1, s.n, s.e), v = k, g = q,
          out = q, dq = q, dk = k, dv = k, bias = Bias(s);
  Operand logsumexp = Operand::Dense(DType::kFloat32, {1, 1, s.m}, {0, 1, 2});
  for (Operand* operand : {&q, &k, &v, &g}) FillNormal(*operand, random);
  for (Operand* operand : {&out, &logsumexp, &dq, &dk, &dv})
    operand->FillWith(NAN);
  for (int64_t n = 0; n < s.n; ++n) {
    bias.Set(bias.Offset({0, 0, 1, n}), -INFINITY);
    if (n < 280) bias.Set(bias.Offset({0, 0, 2, n}), -INFINITY);
  }
  const std::vector<ExternAttribute> attributes = {{"biased", int64_t{1}}};
  ASSERT_TRUE(
      Run("attention", {&q, &k, &v, &bias}, {&out, &logsumexp}, attributes)
          .ok());
  ASSERT_TRUE(Run("attention_backward",
                  {&g, &q, &k, &v, &out, &logsumexp, &bias}, {&dq, &dk, &dv},
                  attributes)
                  .ok());
  const Due due = Attend(s, q, k, v, &bias, g, 1);
  for (int64_t e = 0; e < s.e; ++e) {
    EXPECT_EQ(out.At({0, 0, 1, e}), 0);
    EXPECT_EQ(dq.At({0, 0, 1, e}), 0);
  }
  EXPECT_EQ(logsumexp.At({0, 0, 1}), 0);
  EXPECT_LT(Distance(out, due.out), 2e-6);
  EXPECT_LT(Distance(dk, due.dk), 2e-6);
  EXPECT_LT(Distance(dv, due.dv), 2e-6);
}

TEST_P(CpuAttention, ARowWithANanIsNan) {
  AttentionShape s = Shape("a NaN", 2, 20);
  s.h = s.x = 1;
  std::mt19937 random(7);
  Operand q = Heads(s, 1, s.m, s.e), k = Heads(s, 1, s.n, s.e), v = k, out = q;
  Operand logsumexp = Operand::Dense(DType::kFloat32, {1, 1, s.m}, {0, 1, 2});
  for (Operand* operand : {&q, &k, &v}) FillNormal(*operand, random);
  q.Set(q.Offset({0, 0, 1, 2}), NAN);
  ASSERT_TRUE(Run("attention", {&q, &k, &v}, {&out, &logsumexp}, {}).ok());
  EXPECT_FALSE(std::isnan(out.At({0, 0, 0, 0})));
  for (int64_t e = 0; e < s.e; ++e)
    EXPECT_TRUE(std::isnan(out.At({0, 0, 1, e})));
}

TEST_P(CpuAttention, SizesOf0LeaveNothingToDo) {
  for (const auto& [m, n] : {std::pair(0, 4), std::pair(4, 0)}) {
    const AttentionShape s = Shape("empty", m, n);
    Operand q = Heads(s, s.h, m, s.e), k = Heads(s, s.x, n, s.e), v = k, g = q,
            out = q, dq = q, dk = k, dv = k;
    Operand logsumexp =
        Operand::Dense(DType::kFloat32, {s.b, s.h, m}, {0, 1, 2});
    out.FillWith(NAN);
    dq.FillWith(NAN);
    dk.FillWith(NAN);
    ASSERT_TRUE(Run("attention", {&q, &k, &v}, {&out, &logsumexp}, {}).ok());
    ASSERT_TRUE(Run("attention_backward", {&g, &q, &k, &v, &out, &logsumexp},
                    {&dq, &dk, &dv}, {})
                    .ok());
    for (Operand* zero : {&out, &dq, &dk}) {
      ForEachIndex(zero->sizes(), [&](const std::vector<int64_t>& at) {
        EXPECT_EQ(zero->At(at), 0);
      });
    }
  }
}

TEST_P(CpuAttention, RefusesWhatItHasNotByName) {
  const auto refusal = [&](DType dtype, double dropout,
                           absl::string_view algorithm = "") {
    const AttentionShape s{.dtype = dtype};
    Operand q = Heads(s, s.h, s.m, s.e), out = q;
    Operand logsumexp =
        Operand::Dense(DType::kFloat32, {s.b, s.h, s.m}, {0, 1, 2});
    Operand seed(DType::kInt64, {}, {}), offset = seed;
    std::vector<Operand*> inputs = {&q, &q, &q};
    if (dropout > 0) inputs.insert(inputs.end(), {&seed, &offset});
    return Run("attention", inputs, {&out, &logsumexp},
               {{"dropout", dropout}, {"algorithm", algorithm}});
  };
  for (const absl::Status& status :
       {refusal(DType::kFloat64, 0), refusal(DType::kFloat32, 0.1)}) {
    EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp) << status;
    EXPECT_NE(status.message().find("attention"), std::string::npos) << status;
  }
  EXPECT_NE(refusal(DType::kFloat32, 0.1, "engine8")
                .message()
                .find("attention: algorithm engine8 with a dropout"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln

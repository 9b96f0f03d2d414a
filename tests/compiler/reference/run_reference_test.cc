// Small graphs whose results are known by hand.

#include "compiler/reference/run_reference.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/graph/op_table.h"
#include "compiler/reference/half_bits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

RefTensor F32(Sizes sizes, std::vector<double> values) {
  RefTensor t = RefTensor::Zeros(DType::kFloat32, sizes);
  Elements e = Elements::Floats(sizes);
  e.f = std::move(values);
  Store(e, t);
  return t;
}

// A graph of one f32 input [2, 3] and the nodes that `build` adds.
class Reference : public testing::Test {
 protected:
  Reference() {
    graph_.name = "g";
    x_ = graph_.AddInput("x", ContiguousMeta(DType::kFloat32, {2, 3}), 4);
  }

  ValueId Add(absl::string_view op, absl::InlinedVector<Argument, 4> args) {
    auto results = graph_.AddNode(KnownOp(op), std::move(args));
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? results->front() : x_;
  }

  // The first output's elements for x = 0, 1, ..., 5.
  Elements Run(ValueId output) {
    graph_.outputs.push_back({output, {}});
    const RefValue input = F32({2, 3}, {0, 1, 2, 3, 4, 5});
    outcome_ = RunReference(graph_, {&input, 1});
    EXPECT_TRUE(outcome_.ok()) << outcome_.status();
    if (!outcome_.ok()) return Elements::Floats({0});
    return Load(std::get<RefTensor>(outcome_->outputs[0]));
  }

  Graph graph_;
  ValueId x_;
  absl::StatusOr<RefOutcome> outcome_;
};

TEST_F(Reference, AViewSharesItsMemoryWithWhatItShows) {
  const ValueId row = Add("aten.select.int", {x_, 0, 1});
  Add("aten.mul_.Tensor", {row, 10.0});
  EXPECT_EQ(Run(x_).f, (std::vector<double>{0, 1, 2, 30, 40, 50}));
  // The input as the caller sees it after the run.
  EXPECT_EQ(Load(std::get<RefTensor>(outcome_->inputs[0])).f,
            (std::vector<double>{0, 1, 2, 30, 40, 50}));
}

TEST_F(Reference, AnIndexedViewOfATranspositionIsRead) {
  const ValueId t = Add("aten.t.default", {x_});
  EXPECT_EQ(Run(t).f, (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST_F(Reference, HalfResultsAreRoundedAtEachOperator) {
  const ValueId half =
      Add("prims.convert_element_type.default", {x_, DType::kBFloat16});
  const ValueId sum = Add("aten.add.Tensor", {half, 256.0});
  // bf16 holds 8 bits: 257 rounds to 256 and 259 to 260.
  EXPECT_EQ(Run(sum).f, (std::vector<double>{256, 256, 258, 260, 260, 260}));
}

TEST_F(Reference, ARowOfMinusInfinitySoftmaxesToNan) {
  const ValueId low = Add("aten.full_like.default", {x_, -INFINITY});
  const ValueId y = Add("aten._softmax.default", {low, 1, false});
  for (double v : Run(y).f) EXPECT_TRUE(std::isnan(v));
}

// As PyTorch's kernel for the CPU has it.
TEST_F(Reference, ARowOfAttentionThatSeesNothingIsZeroAndSoIsItsLogsumexp) {
  const ValueId q = Add("aten.view.default", {x_, Argument::List{1, 1, 2, 3}});
  const ValueId mask =
      Add("aten.full.default", {Argument::List{1, 1, 2, 2}, false});
  const OpDef& op =
      KnownOp("aten._scaled_dot_product_flash_attention_for_cpu.default");
  const auto results = graph_.AddNode(op, {q, q, q, 0.0, false, mask});
  ASSERT_TRUE(results.ok()) << results.status();
  graph_.outputs.push_back({(*results)[1], {}});
  EXPECT_EQ(Run((*results)[0]).f, std::vector<double>(2, 0));
  EXPECT_EQ(Load(std::get<RefTensor>(outcome_->outputs[1])).f,
            std::vector<double>(6, 0));
}

TEST_F(Reference, TheLargestOfNothingFails) {
  const ValueId none = Add("aten.slice.Tensor", {x_, 1, 3, 3});
  for (const absl::string_view op : {"aten.amax.default", "aten.argmin.default",
                                     "aten.max.dim", "aten.aminmax.default"}) {
    Argument dim = 1;
    if (op == "aten.amax.default") dim = Argument::List{1};
    graph_.outputs = {{Add(op, {none, dim}), {}}};
    const RefValue input = F32({2, 3}, {0, 1, 2, 3, 4, 5});
    const auto outcome = RunReference(graph_, {&input, 1});
    EXPECT_THAT(outcome.status().message(),
                testing::HasSubstr("no elements to choose from"))
        << op;
  }
}

TEST(HalfBits, EveryF16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FloatFromF16Bits(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(F16BitsFromFloat(value), bits);
  }
}

TEST(HalfBits, TiesGoToEven) {
  EXPECT_EQ(FloatFromF16Bits(F16BitsFromFloat(2049.0f)), 2048.0f);
  EXPECT_EQ(FloatFromF16Bits(F16BitsFromFloat(2051.0f)), 2052.0f);
  EXPECT_EQ(F16BitsFromFloat(65519.0f), 0x7bff);
  EXPECT_EQ(F16BitsFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(FloatFromBF16Bits(BF16BitsFromFloat(257.0f)), 256.0f);
  EXPECT_EQ(FloatFromBF16Bits(BF16BitsFromFloat(259.0f)), 260.0f);
}

}  // namespace
}  // namespace kiln

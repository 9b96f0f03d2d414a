#include "compiler/schedule/reduction_plan.h"

#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "gtest/gtest.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

constexpr char kColumnSum[] = R"(loops @g() {
  in x : f32[24, 3, 2] index 0
  out s : f32[3]
  nest sum [i0 in 3, reduce i1 in 24, reduce i2 in 2] {
    t0 = load f32 x[i1, i0, i2]
    t1 = reduce f32 t0 by sum
    t2 = neg f32 t1
    s[i0] = t2
  }
  return view s f32 [3] strides [1] offset 0
}
)";

RefOutcome Outcome(const LoopProgram& program) {
  Elements x = Elements::Floats({24, 3, 2});
  for (int64_t k = 0; k < x.count(); ++k) x.f[k] = static_cast<double>(k % 17);
  RefTensor tensor = RefTensor::Zeros(DType::kFloat32, {24, 3, 2});
  Store(x, tensor);
  const std::vector<RefValue> inputs = {tensor};
  const auto outcome = RunLoops(program, {}, inputs);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *outcome : RefOutcome();
}

TEST(ReductionPlan, TwoStagesGiveTheSameSums) {
  auto program = ParseLoopProgram(kColumnSum);
  ASSERT_TRUE(program.ok()) << program.status();
  const RefOutcome due = Outcome(*program);
  const SplitLimits limits = {.least_reduced = 8, .least_points = 8};
  EXPECT_EQ(SplitLongReductions(*program, *TargetFromName("sm_90"), limits), 1);
  EXPECT_EQ(program->steps.size(), 2u);
  EXPECT_EQ(VerifyLoops(*program), absl::OkStatus()) << ToText(*program);
  const RefOutcome got = Outcome(*program);
  EXPECT_EQ(std::get<RefTensor>(got.outputs[0]).Bytes(),
            std::get<RefTensor>(due.outputs[0]).Bytes());
}

TEST(ReductionPlan, ShortReductionsStayWhole) {
  auto program = ParseLoopProgram(kColumnSum);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(SplitLongReductions(*program, *TargetFromName("sm_90"), {}), 0);
  EXPECT_EQ(SplitLongReductions(*program, *TargetFromName("x86-64-v3"),
                                {.least_reduced = 8, .least_points = 8}),
            0);
}

}  // namespace
}  // namespace kiln

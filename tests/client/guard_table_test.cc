#include "client/guard_table.h"

#include <thread>

#include "gtest/gtest.h"
#include "proto/graph.pb.h"

namespace kiln {
namespace {

// A plan for x: f32[s0, 8] (contiguous, 16-byte aligned) and b: f32[s0].
Plan RowsOfEight() {
  Plan plan;
  wire::SymExpr s0;
  wire::SymInstruction* push = s0.add_code();
  push->set_op(wire::SYM_OP_SYMBOL);
  plan.expressions = {{*SymProgram::FromWire(s0, 1), {0}},
                      {SymProgram::Constant(8), {}},
                      {SymProgram::Constant(1), {}},
                      {SymProgram::Constant(0), {}}};
  plan.symbols = {{"s0", PlanSymbol::Source::kSize, 0, 0, 2, 1000}};
  plan.inputs = {PlanTensorInput{DType::kFloat32, {0, 1}, {1, 2}, 3, 16},
                 PlanTensorInput{DType::kFloat32, {0}, {2}, 3, 4}};
  return plan;
}

// s0 % n == 0.
PlanGuard MultipleOf(int64_t n) {
  wire::SymExpr expr;
  const auto add = [&expr](wire::SymOp op, int64_t value) {
    wire::SymInstruction* i = expr.add_code();
    i->set_op(op);
    i->set_value(value);
  };
  add(wire::SYM_OP_SYMBOL, 0);
  add(wire::SYM_OP_CONSTANT, n);
  add(wire::SYM_OP_MOD, 0);
  add(wire::SYM_OP_CONSTANT, 0);
  add(wire::SYM_OP_EQ, 0);
  return {*SymProgram::FromWire(expr, 1), "pad"};
}

alignas(16) float memory[64];

std::vector<InputValue> Rows(int64_t rows) {
  Tensor x;
  x.data = memory;
  x.sizes = {rows, 8};
  x.strides = {8, 1};
  Tensor b;
  b.data = memory;
  b.sizes = {rows};
  b.strides = {1};
  return {x, b};
}

TEST(CompiledGuards, HoldForEverySizeInRange) {
  const CompiledGuards guards(RowsOfEight(), {});
  EXPECT_TRUE(guards.Hold(ViewsOf(Rows(2))));
  EXPECT_TRUE(guards.Hold(ViewsOf(Rows(1000))));
  EXPECT_FALSE(guards.Hold(ViewsOf(Rows(1))));
  EXPECT_FALSE(guards.Hold(ViewsOf(Rows(1001))));
}

TEST(CompiledGuards, SayWhichGuardFails) {
  const CompiledGuards guards(RowsOfEight(), {MultipleOf(4)});
  EXPECT_EQ(guards.WhyNot(ViewsOf(Rows(8))), "");

  std::vector<InputValue> inputs = Rows(8);
  std::get<Tensor>(inputs[0]).sizes[1] = 7;
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)), "input 0: size 1 is 7, expected 8");

  inputs = Rows(8);
  std::get<Tensor>(inputs[1]).strides[0] = 2;
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)),
            "input 1: stride 0 is 2, expected 1");

  inputs = Rows(8);
  std::get<Tensor>(inputs[0]).dtype = DType::kFloat16;
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)), "input 0: f16, expected f32");

  inputs = Rows(8);
  std::get<Tensor>(inputs[0]).data = memory + 1;
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)),
            "input 0: address not a multiple of 16");

  inputs = Rows(8);
  std::get<Tensor>(inputs[1]).sizes[0] = 9;
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)),
            "sizes or strides do not match the values of the symbols");

  inputs = Rows(8);
  inputs[1] = int64_t{3};
  EXPECT_EQ(guards.WhyNot(ViewsOf(inputs)), "input 1: expected a tensor");

  EXPECT_NE(guards.WhyNot(ViewsOf(Rows(9))).find("pad"), std::string::npos);
  EXPECT_EQ(guards.WhyNot({}), "0 inputs, expected 2");
}

TEST(CompiledGuards, StridesThatNobodyStepsAlongDoNotMatter) {
  const CompiledGuards guards(RowsOfEight(), {});
  std::vector<InputValue> inputs = Rows(2);
  auto& x = std::get<Tensor>(inputs[0]);
  x.strides[0] = 9;
  EXPECT_FALSE(guards.Hold(ViewsOf(inputs)));
  EXPECT_TRUE(guards.Examine(ViewsOf(inputs)).hopeless);

  // One row, where a row may be: as PyTorch, whatever its stride says.
  Plan one_row = RowsOfEight();
  one_row.symbols[0].min = 0;
  const CompiledGuards few(one_row, {});
  inputs = Rows(1);
  std::get<Tensor>(inputs[0]).strides[0] = 9;
  EXPECT_TRUE(few.Hold(ViewsOf(inputs)));
  EXPECT_EQ(few.WhyNot(ViewsOf(inputs)), "");
  EXPECT_FALSE(few.Examine(ViewsOf(inputs)).hopeless);

  // Nothing at all, anywhere.
  inputs = Rows(0);
  auto& empty = std::get<Tensor>(inputs[0]);
  empty.strides = {5, 7};
  empty.data = static_cast<char*>(empty.data) + 1;
  EXPECT_TRUE(few.Hold(ViewsOf(inputs))) << few.WhyNot(ViewsOf(inputs));
  EXPECT_TRUE(few.Examine(ViewsOf(inputs)).alignments.empty());
}

TEST(CompiledGuards, TellWhatToCompileForInstead) {
  const CompiledGuards guards(RowsOfEight(), {MultipleOf(4), MultipleOf(3)});
  std::vector<InputValue> inputs = Rows(9);
  std::get<Tensor>(inputs[0]).data = memory + 1;
  const CompiledGuards::Mismatch mismatch = guards.Examine(ViewsOf(inputs));
  EXPECT_FALSE(mismatch.hopeless);
  EXPECT_EQ(mismatch.symbols, std::vector<int64_t>{9});
  ASSERT_EQ(mismatch.forbidden.size(), 1);
  EXPECT_EQ(mismatch.forbidden[0], MultipleOf(4).condition);
  ASSERT_EQ(mismatch.alignments.size(), 1);
  EXPECT_EQ(mismatch.alignments[0], (std::pair<int, uint32_t>(0, 4)));

  std::get<Tensor>(inputs[0]).sizes[1] = 7;
  EXPECT_TRUE(guards.Examine(ViewsOf(inputs)).hopeless);
}

TEST(GuardTable, TheNewestEntryThatHoldsServes) {
  auto table = std::make_shared<const GuardTable>();
  EXPECT_EQ(table->Find(ViewsOf(Rows(8))), -1);
  table = table->With(CompiledGuards(RowsOfEight(), {MultipleOf(4)}));
  table = table->With(CompiledGuards(RowsOfEight(), {MultipleOf(3)}));
  EXPECT_EQ(table->Find(ViewsOf(Rows(8))), 0);
  EXPECT_EQ(table->Find(ViewsOf(Rows(9))), 1);
  EXPECT_EQ(table->Find(ViewsOf(Rows(12))), 1);
  EXPECT_EQ(table->Find(ViewsOf(Rows(12))), 1);  // now from the memo
  EXPECT_EQ(table->Find(ViewsOf(Rows(5))), -1);
}

TEST(GuardTable, TheMemoIsAHintAndNeverTrusted) {
  const auto table = GuardTable().With(CompiledGuards(RowsOfEight(), {}));
  EXPECT_EQ(table->Find(ViewsOf(Rows(8))), 0);
  std::vector<InputValue> misaligned = Rows(8);  // equal metas, equal hash
  std::get<Tensor>(misaligned[0]).data = memory + 1;
  EXPECT_EQ(HashOfMetas(ViewsOf(misaligned)), HashOfMetas(ViewsOf(Rows(8))));
  EXPECT_EQ(table->Find(ViewsOf(misaligned)), -1);
}

TEST(GuardTable, ManyThreadsMayFind) {
  const auto table = GuardTable()
                         .With(CompiledGuards(RowsOfEight(), {MultipleOf(2)}))
                         ->With(CompiledGuards(RowsOfEight(), {MultipleOf(3)}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table] {
      for (int64_t rows = 2; rows < 900; ++rows) {
        const int due = rows % 3 == 0 ? 1 : rows % 2 == 0 ? 0 : -1;
        EXPECT_EQ(table->Find(ViewsOf(Rows(rows))), due);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln

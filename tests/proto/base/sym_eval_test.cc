#include "proto/base/sym_eval.h"

#include <gtest/gtest.h>

#include <limits>

#include "proto/base/status.h"
#include "proto/graph.pb.h"

namespace kiln {
namespace {

struct Step {
  wire::SymOp op;
  int64_t value = 0;
};

wire::SymExpr Expr(const std::vector<Step>& steps) {
  wire::SymExpr expr;
  for (const Step& step : steps) {
    wire::SymInstruction* in = expr.add_code();
    in->set_op(step.op);
    in->set_value(step.value);
  }
  return expr;
}

constexpr wire::SymOp C = wire::SYM_OP_CONSTANT;
constexpr wire::SymOp S = wire::SYM_OP_SYMBOL;

wire::SymExpr Binary(wire::SymOp op, int64_t a, int64_t b) {
  return Expr({{C, a}, {C, b}, {op}});
}

TEST(SymProgram, AnEmptyProgramIsTheConstantOfItsValue) {
  wire::SymExpr expr;
  expr.set_value(-7);
  const auto program = SymProgram::FromWire(expr, 0);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(program->is_constant());
  EXPECT_EQ(program->Evaluate({}), -7);
  EXPECT_EQ(program->ToText(), "-7");
}

TEST(SymProgram, EqualConstantsAreEqualHoweverTheyAreWritten) {
  wire::SymExpr expr;
  expr.set_value(5);
  EXPECT_EQ(*SymProgram::FromWire(expr, 0),
            *SymProgram::FromWire(Expr({{C, 5}}), 0));
}

TEST(SymProgram, PrintsAsPeopleWriteIt) {
  const auto expr =
      Expr({{C, 4}, {S, 0}, {wire::SYM_OP_MUL}, {C, 1}, {wire::SYM_OP_ADD}});
  const auto program = SymProgram::FromWire(expr, 1);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->ToText(), "4*s0 + 1");
  EXPECT_EQ(program->ToText({"N"}), "4*N + 1");
  EXPECT_EQ(program->Evaluate({10}), 41);
  EXPECT_EQ(program->ToWire().SerializeAsString(), expr.SerializeAsString());
}

TEST(SymProgram, BracketsStandWhereTheyChangeTheMeaning) {
  const auto product =
      Expr({{S, 0}, {S, 1}, {wire::SYM_OP_ADD}, {S, 2}, {wire::SYM_OP_MUL}});
  EXPECT_EQ(SymProgram::FromWire(product, 3)->ToText(), "(s0 + s1)*s2");
  const auto call = Expr({{S, 0},
                          {C, 2},
                          {wire::SYM_OP_FLOORDIV},
                          {C, 8},
                          {wire::SYM_OP_LE},
                          {wire::SYM_OP_NOT}});
  EXPECT_EQ(SymProgram::FromWire(call, 1)->ToText(),
            "not(floordiv(s0, 2) <= 8)");
}

TEST(SymProgram, DivisionRoundsTowardsMinusInfinityAsInPython) {
  for (int64_t a = -7; a <= 7; ++a) {
    for (int64_t b = -3; b <= 3; ++b) {
      if (b == 0) continue;
      const int64_t div =
          SymProgram::FromWire(Binary(wire::SYM_OP_FLOORDIV, a, b), 0)
              ->Evaluate({});
      const int64_t mod =
          SymProgram::FromWire(Binary(wire::SYM_OP_MOD, a, b), 0)->Evaluate({});
      EXPECT_EQ(div * b + mod, a) << a << " " << b;
      EXPECT_TRUE(mod == 0 || (mod < 0) == (b < 0)) << a << " " << b;
    }
  }
}

TEST(SymProgram, EveryBinaryOperationGivesItsValue) {
  const struct {
    wire::SymOp op;
    int64_t a, b, value;
  } rows[] = {
      {wire::SYM_OP_ADD, 2, 3, 5}, {wire::SYM_OP_MUL, 2, 3, 6},
      {wire::SYM_OP_MIN, 2, 3, 2}, {wire::SYM_OP_MAX, 2, 3, 3},
      {wire::SYM_OP_EQ, 2, 3, 0},  {wire::SYM_OP_NE, 2, 3, 1},
      {wire::SYM_OP_LT, 3, 3, 0},  {wire::SYM_OP_LE, 3, 3, 1},
      {wire::SYM_OP_AND, 2, 0, 0}, {wire::SYM_OP_OR, 2, 0, 1},
  };
  for (const auto& row : rows) {
    const auto program = SymProgram::FromWire(Binary(row.op, row.a, row.b), 0);
    EXPECT_EQ(program->Evaluate({}), row.value) << wire::SymOp_Name(row.op);
    EXPECT_EQ(*program->EvaluateChecked({}), row.value);
  }
}

TEST(SymProgram, WhatHasNoValueIsRefusedByTheCheckedForm) {
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  for (const auto& expr :
       {Binary(wire::SYM_OP_FLOORDIV, 1, 0), Binary(wire::SYM_OP_MOD, 1, 0),
        Binary(wire::SYM_OP_ADD, high, 1), Binary(wire::SYM_OP_MUL, high, 2),
        Binary(wire::SYM_OP_FLOORDIV, low, -1)}) {
    const auto program = SymProgram::FromWire(expr, 0);
    program->Evaluate({});  // no trap
    EXPECT_EQ(program->EvaluateChecked({}).status().code(),
              absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(*SymProgram::FromWire(Binary(wire::SYM_OP_MOD, low, -1), 0)
                 ->EvaluateChecked({}),
            0);
}

TEST(SymProgram, UnsoundExpressionsAreRefusedByReason) {
  const wire::SymExpr unsound[] = {
      Expr({{wire::SYM_OP_ADD}}),                      // nothing to add
      Expr({{C, 1}, {C, 2}}),                          // leaves two
      Expr({{S, 2}}),                                  // symbol 2 of 2
      Expr({{S, -1}}),                                 //
      Expr({{wire::SYM_OP_UNSPECIFIED}}),              //
      Expr({{C, 1}, {static_cast<wire::SymOp>(99)}}),  //
  };
  for (const wire::SymExpr& expr : unsound) {
    EXPECT_EQ(ReasonOf(SymProgram::FromWire(expr, 2).status()),
              ErrorReason::kMalformedGraph);
  }
  const std::vector<Step> deep(SymProgram::kMaxDepth + 1, Step{C, 1});
  EXPECT_EQ(ReasonOf(SymProgram::FromWire(Expr(deep), 2).status()),
            ErrorReason::kTooLarge);
  const std::vector<Step> many(SymProgram::kMaxInstructions + 1, Step{C, 1});
  EXPECT_EQ(ReasonOf(SymProgram::FromWire(Expr(many), 2).status()),
            ErrorReason::kTooLarge);
}

TEST(SymProgram, TooFewSymbolsAreRefusedByTheCheckedForm) {
  const auto program = SymProgram::FromWire(Expr({{S, 1}}), 2);
  EXPECT_EQ(program->symbols_needed(), 2);
  EXPECT_EQ(program->EvaluateChecked({1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*program->EvaluateChecked({1, 9}), 9);
}

// To write it takes far longer than to run it.
TEST(SymProgram, TheTextOfALongOneIsNotInItsFault) {
  std::vector<Step> steps = {{S, 0}};
  for (int i = 0; i < 100; ++i) {
    steps.push_back({C, 1});
    steps.push_back({wire::SYM_OP_MUL});
  }
  steps.push_back({C, 0});
  steps.push_back({wire::SYM_OP_MOD});
  const auto program = SymProgram::FromWire(Expr(steps), 1);
  EXPECT_EQ(
      program->EvaluateChecked({7}).status().message(),
      "symbolic expression of 203 instructions: SYM_OP_MOD of 7 and 0 has "
      "no 64-bit value");
  EXPECT_EQ(
      program->EvaluateChecked({}).status().message(),
      "symbolic expression of 203 instructions: 0 symbol values, needs 1");
  const auto brief =
      SymProgram::FromWire(Expr({{S, 0}, {C, 0}, {wire::SYM_OP_MOD}}), 1);
  EXPECT_EQ(brief->EvaluateChecked({7}).status().message(),
            "symbolic expression mod(s0, 0): SYM_OP_MOD of 7 and 0 has no "
            "64-bit value");
}

}  // namespace
}  // namespace kiln

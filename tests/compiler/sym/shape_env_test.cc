#include "compiler/sym/shape_env.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

ShapeEnv TwoSymbols() {
  ShapeEnv shapes;
  shapes.symbols.push_back({"n", 8, {2, 1000}, {}});
  shapes.symbols.push_back({"m", 8, {0, 1000}, {}});
  return shapes;
}

TEST(ShapeEnv, WhatIsKnownTakesNoGuard) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr n = SymExpr::Symbol(0);
  EXPECT_FALSE(shapes.DecideEq(n, 1, "test"));
  EXPECT_TRUE(shapes.DecideLt(1, n, "test"));
  EXPECT_TRUE(shapes.DecideEq(n * 2, n + n, "test"));
  EXPECT_TRUE(shapes.DecideLe(n, 1000, "test"));
  EXPECT_TRUE(shapes.guards().empty());
}

TEST(ShapeEnv, CommonFactorsTightenBounds) {
  ShapeEnv shapes = TwoSymbols();
  shapes.symbols[1].range.min = 1;
  const SymExpr n = SymExpr::Symbol(0), m = SymExpr::Symbol(1);
  EXPECT_TRUE(shapes.KnownLt(m, n * m));
  EXPECT_TRUE(shapes.KnownLt(8 * m, 32 * n * m * m));
  EXPECT_TRUE(shapes.KnownLe(n, n * m));
  EXPECT_FALSE(shapes.KnownLt(n, n * m));
}

TEST(ShapeEnv, WhatTheHintDecidesIsGuardedOnce) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr n = SymExpr::Symbol(0), m = SymExpr::Symbol(1);
  EXPECT_TRUE(shapes.DecideEq(n, m, "broadcast"));
  EXPECT_TRUE(shapes.DecideEq(m, n, "again"));
  ASSERT_EQ(shapes.guards().size(), 1u);
  EXPECT_EQ(shapes.guards()[0].origin, "broadcast");
}

TEST(ShapeEnv, AGuardOnOneSymbolNarrowsItsRange) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr m = SymExpr::Symbol(1);
  EXPECT_FALSE(shapes.DecideEq(m, 0, "empty"));
  EXPECT_FALSE(shapes.DecideEq(m, 1, "one"));
  EXPECT_EQ(shapes.Range(m).min, 2);
  EXPECT_TRUE(shapes.DecideLt(m * 2, 21, "small"));
  EXPECT_EQ(shapes.Range(m).max, 10);
  EXPECT_TRUE(shapes.DecideEq(m, 8, "fixed"));
  EXPECT_EQ(shapes.Range(m), (ValueRange{8, 8}));
  EXPECT_TRUE(shapes.KnownEq(m * 3, 24));
}

TEST(ShapeEnv, WhatAClientVouchedForIsKeptBesideWhatGuardsSay) {
  ShapeEnv shapes = TwoSymbols();
  EXPECT_TRUE(shapes.DecideEq(SymExpr::Symbol(0), 8, "fixed"));
  EXPECT_EQ(shapes.Range(SymExpr::Symbol(0)), (ValueRange{8, 8}));
  EXPECT_EQ(shapes.DeclaredRange(0), (ValueRange{2, 1000}));
  EXPECT_EQ(shapes.DeclaredRange(1), (ValueRange{0, 1000}));
}

TEST(ShapeEnv, WhatAGuardImpliesTakesNoOther) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr n = SymExpr::Symbol(0), m = SymExpr::Symbol(1);
  shapes.symbols[1].hint = 9;
  EXPECT_TRUE(shapes.DecideLt(n, m, "test"));
  EXPECT_TRUE(shapes.DecideLe(n, m, "test"));
  EXPECT_TRUE(shapes.DecideLt(n, m + 5, "test"));
  EXPECT_TRUE(shapes.DecideLt(2 * n, n + m, "test"));
  EXPECT_FALSE(shapes.DecideEq(n, m, "test"));
  EXPECT_EQ(shapes.guards().size(), 1u);
}

TEST(ShapeEnv, TheNegationOfAForbiddenGuardDecidesAndIsTaken) {
  const SymExpr n = SymExpr::Symbol(0), m = SymExpr::Symbol(1);
  const struct {
    Guard forbidden;
    bool equal, less, greater;
  } rows[] = {
      // By the hints, 8 and 8, n would equal m.
      {{GuardOp::kEq, n, m, ""}, false, false, false},
      {{GuardOp::kLe, n, m, ""}, false, false, true},
      {{GuardOp::kLe, m, n, ""}, false, true, false},
  };
  for (const auto& row : rows) {
    ShapeEnv shapes = TwoSymbols();
    shapes.Forbid(row.forbidden);
    EXPECT_TRUE(shapes.guards().empty());
    EXPECT_EQ(shapes.DecideLt(n, m, "test"), row.less);
    EXPECT_EQ(shapes.DecideLt(m, n, "test"), row.greater);
    ShapeEnv again = TwoSymbols();
    again.Forbid(row.forbidden);
    EXPECT_EQ(again.DecideEq(n, m, "test"), row.equal);
    ASSERT_EQ(again.guards().size(), 1u);
    EXPECT_EQ(again.guards()[0].op, GuardOp::kNe);
  }
  // By the hints n would not be less than m.
  ShapeEnv shapes = TwoSymbols();
  shapes.Forbid({GuardOp::kLe, m, n, ""});
  EXPECT_TRUE(shapes.DecideLt(n, m, "slice"));
  ASSERT_EQ(shapes.guards().size(), 1u);
  EXPECT_EQ(shapes.guards()[0], (Guard{GuardOp::kLt, n, m, ""}));
  EXPECT_EQ(shapes.guards()[0].origin, "slice");
}

TEST(ShapeEnv, WhatAForbiddenGuardDoesNotSayHintsDecide) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr n = SymExpr::Symbol(0), m = SymExpr::Symbol(1);
  shapes.symbols[0].hint = 13;
  shapes.Forbid({GuardOp::kEq, n, 16, ""});
  EXPECT_EQ(shapes.Specialize(n, "window"), 13);
  ASSERT_EQ(shapes.guards().size(), 1u);
  EXPECT_EQ(shapes.guards()[0], (Guard{GuardOp::kEq, n, 13, ""}));
  EXPECT_TRUE(shapes.DecideLt(m, n, "test"));
}

TEST(ShapeEnv, ASizeThatIsNotOneTakesNoGuardToSaySo) {
  ShapeEnv shapes = TwoSymbols();
  const SymExpr m = SymExpr::Symbol(1);
  EXPECT_FALSE(shapes.DecideIsOne(m, "broadcast"));
  EXPECT_TRUE(shapes.guards().empty());
  shapes.symbols[1].hint = 1;
  EXPECT_TRUE(shapes.DecideIsOne(m, "broadcast"));
  EXPECT_EQ(shapes.guards().size(), 1u);
}

TEST(ShapeEnv, AnExpressionThatWasDecidedToBeOneIsKnownToBe) {
  ShapeEnv shapes = TwoSymbols();
  shapes.symbols[1].hint = 3;
  const SymExpr m = SymExpr::Symbol(1);
  const SymExpr part = m - FloorDiv(m + 1, 2);
  EXPECT_TRUE(shapes.KnownOne(1));
  EXPECT_FALSE(shapes.KnownOne(2));
  EXPECT_FALSE(shapes.KnownOne(part));  // by the hints alone
  EXPECT_TRUE(shapes.DecideIsOne(part, "broadcast"));
  EXPECT_TRUE(shapes.KnownOne(part));
  EXPECT_FALSE(shapes.KnownOne(m));
}

}  // namespace
}  // namespace kiln

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

}  // namespace
}  // namespace kiln

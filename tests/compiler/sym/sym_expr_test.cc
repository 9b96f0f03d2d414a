#include "compiler/sym/sym_expr.h"

#include <gtest/gtest.h>

#include "compiler/sym/sym_simplify.h"
#include "compiler/sym/sym_text.h"

namespace kiln {
namespace {

SymExpr Parse(absl::string_view text) {
  const auto e = ParseSymExpr(text, DefaultVarOfName);
  EXPECT_TRUE(e.ok()) << e.status();
  return e.value_or(SymExpr(-999));
}

TEST(SymExpr, EqualPolynomialsAreEqualValues) {
  EXPECT_EQ(Parse("(s0 + 1)*(s0 - 1)"), Parse("s0*s0 - 1"));
  EXPECT_EQ(Parse("s1*s0*2 + s0"), Parse("s0 + s0*s1 + s1*s0"));
  EXPECT_EQ(Parse("s0 - s0"), SymExpr(0));
  EXPECT_NE(Parse("s0"), Parse("s1"));
}

TEST(SymExpr, MultiplesOfTheDivisorAreTakenOut) {
  EXPECT_EQ(Parse("(8*i0 + i1) // 4").ToString(), "2*i0 + i1 // 4");
  EXPECT_EQ(Parse("(s0*i0 + i1) // s0").ToString(), "i0 + i1 // s0");
  EXPECT_EQ(Parse("(s0*i0 + i1) % s0").ToString(), "i1 % s0");
  EXPECT_EQ(Parse("(s0*s1 + s0) // (s1 + 1)"), Parse("s0"));
  EXPECT_EQ(Parse("(4*s0*s1) // (2*s0)"), Parse("2*s1"));
  EXPECT_EQ(Parse("(s0*s1) // (4*s0)").ToString(), "s1 // 4");
  EXPECT_EQ(CeilDiv(Parse("s0*s1"), Parse("s0")), Parse("s1"));
  EXPECT_EQ(CeilDiv(Parse("8*s1"), 4), Parse("2*s1"));
}

TEST(SymExpr, NestedDivisionsMerge) {
  EXPECT_EQ(Parse("(i0 // 4) // 8").ToString(), "i0 // 32");
  EXPECT_EQ(Parse("(i0 // 4 + 3) // 8").ToString(), "(i0 + 12) // 32");
  EXPECT_EQ(Parse("(i0 % 12) % 4").ToString(), "i0 % 4");
  EXPECT_EQ(Parse("(6*i0 + 4) // 8").ToString(), "(3*i0 + 2) // 4");
  EXPECT_EQ(Parse("(6*i0 + 5) % 8").ToString(), "2*((3*i0 + 2) % 4) + 1");
}

TEST(SymExpr, TextIsReadBack) {
  for (const char* text :
       {"0", "-3", "s0", "-s0", "4*s0 + i1 // 8", "min(s0, 4) - 2",
        "s0*(i0 % s1) - (i1 // (s0 + 1))", "max(s0, s1)*s2 + 7", "-(i0 // 3)",
        "i0 % (s0 // 2)"}) {
    const SymExpr e = Parse(text);
    EXPECT_EQ(Parse(e.ToString()), e) << text << " printed " << e.ToString();
  }
}

TEST(SymExpr, BadTextNamesWhatWasDue) {
  for (const char* text : {"", "s0 +", "(s0", "s0 s1", "zebra", "1x", "4**2"}) {
    EXPECT_FALSE(ParseSymExpr(text, DefaultVarOfName).ok()) << text;
  }
  EXPECT_FALSE(ParseSymExpr(std::string(100000, '('), DefaultVarOfName).ok());
}

class SimplifyTest : public testing::Test {
 protected:
  SimplifyTest() {
    shapes.symbols.push_back({"a", 5, {1, 1 << 20}, {}});
    shapes.symbols.push_back({"b", 7, {2, 1 << 20}, {}});
  }
  std::string Simplified(absl::string_view text, std::vector<SymExpr> extents) {
    return Simplify(Parse(text), {shapes, extents}).ToString();
  }
  ShapeEnv shapes;
};

TEST_F(SimplifyTest, ASumSplitsIntoMultiplesAndABoundedRest) {
  EXPECT_EQ(Simplified("(i0*64 + i1) // 64", {10, 64}), "i0");
  EXPECT_EQ(Simplified("(i0*64 + i1) % 64", {10, 64}), "i1");
  EXPECT_EQ(Simplified("(i0*64 + i1) // 64", {10, 65}), "i0 + i1 // 64");
  EXPECT_EQ(Simplified("(i0*64 + i1*8 + i2) // 32", {10, 8, 8}),
            "2*i0 + i1 // 4");
  EXPECT_EQ(Simplified("(i0*64 + i1*8 + i2) % 32", {10, 8, 8}),
            "i2 + 8*(i1 % 4)");
}

TEST_F(SimplifyTest, SymbolicDivisorsAreUnderstood) {
  const SymExpr s0 = Parse("s0"), s1 = Parse("s1");
  EXPECT_EQ(Simplified("(i0*s0 + i1) // s0", {10, s0}), "i0");
  EXPECT_EQ(Simplified("(i0*s0 + i1) % s0", {10, s0}), "i1");
  EXPECT_EQ(Simplified("(i0*s0*s1 + i1*s1 + i2) // (s0*s1)", {10, s0, s1}),
            "i0");
  EXPECT_EQ(Simplified("(i0*s0*4 + i1*4 + i2) % (4*s0)", {10, s0, 4}),
            "4*i1 + i2");
}

TEST_F(SimplifyTest, QuotientAndRestJoin) {
  EXPECT_EQ(Simplified("(i0 // 8)*8 + i0 % 8", {100}), "i0");
  EXPECT_EQ(Simplified("(i0 // 8)*16 + 2*(i0 % 8)", {100}), "2*i0");
  EXPECT_EQ(Simplified("(i0 // s0)*s0 + i0 % s0", {100}), "i0");
  EXPECT_EQ(Simplified("((i0 // 8) % 4)*8 + i0 % 8", {1000}), "i0 % 32");
  EXPECT_EQ(Simplified("(i0 // 32)*32 + ((i0 // 8) % 4)*8 + i0 % 8", {1000}),
            "i0");
}

TEST_F(SimplifyTest, MinAndMaxFallWhereOneSideAlwaysWins) {
  EXPECT_EQ(Simplified("min(i0, 9)", {10}), "i0");
  EXPECT_EQ(Simplified("max(i0 - 20, 0)", {10}), "0");
  EXPECT_EQ(Simplified("min(i0, s0 - 1)", {Parse("s0")}), "i0");
}

TEST_F(SimplifyTest, AnAxisOfExtentOneIsZero) {
  EXPECT_EQ(Simplified("i0*64 + i1", {1, 64}), "i1");
}

}  // namespace
}  // namespace kiln

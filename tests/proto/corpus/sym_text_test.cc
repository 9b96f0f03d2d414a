#include "proto/corpus/sym_text.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// s0 is symbol 0, s53 is symbol 1; no other is known.
absl::StatusOr<int64_t> NumberOf(absl::string_view name) {
  if (name == "s0") return 0;
  if (name == "s53") return 1;
  return MakeError(ErrorReason::kUnsupportedOp, name);
}

// The value of a postfix program, for s0 = 13 and s53 = 5.
int64_t ValueOf(const wire::SymExpr& expr) {
  if (expr.code_size() == 0) return expr.value();
  std::vector<int64_t> stack;
  for (const wire::SymInstruction& i : expr.code()) {
    if (i.op() == wire::SYM_OP_CONSTANT) {
      stack.push_back(i.value());
      continue;
    }
    if (i.op() == wire::SYM_OP_SYMBOL) {
      stack.push_back(i.value() == 0 ? 13 : 5);
      continue;
    }
    const int64_t b = stack.back();
    stack.pop_back();
    int64_t& a = stack.back();
    if (i.op() == wire::SYM_OP_ADD) a += b;
    if (i.op() == wire::SYM_OP_MUL) a *= b;
    if (i.op() == wire::SYM_OP_FLOORDIV) a = (a - ((a % b) + b) % b) / b;
    if (i.op() == wire::SYM_OP_MOD) a = ((a % b) + b) % b;
    if (i.op() == wire::SYM_OP_MAX) a = std::max(a, b);
    if (i.op() == wire::SYM_OP_LT) a = a < b ? 1 : 0;
  }
  return stack.back();
}

int64_t ValueOf(absl::string_view text) {
  const auto expr = ParseSymText(text, NumberOf);
  EXPECT_TRUE(expr.ok()) << expr.status();
  return expr.ok() ? ValueOf(*expr) : -999;
}

TEST(SymText, ReadsWhatPyTorchPrints) {
  EXPECT_EQ(ValueOf("7"), 7);
  EXPECT_EQ(ValueOf("4*s53"), 20);
  EXPECT_EQ(ValueOf("s0//2"), 6);
  EXPECT_EQ(ValueOf("Mod(s0, 8)"), 5);
  EXPECT_EQ(ValueOf("Max(1, s0, s53)"), 13);
  EXPECT_EQ(ValueOf("-s0 + 3"), -10);
  EXPECT_EQ(ValueOf("(s0//16)*2"), 0);
  EXPECT_EQ(ValueOf("4*s0**2"), 676);
  EXPECT_EQ(ValueOf("s0*s53 - 2*(s0 - 1)"), 41);
  EXPECT_EQ(ValueOf("-s0**2"), -169);
  EXPECT_EQ(ValueOf("((-s0)//4)"), -4);
  EXPECT_EQ(ValueOf("Gt(s0, s53)"), 1);
}

TEST(SymText, FoldsPartsWithoutSymbols) {
  const auto expr = ParseSymText("2*3 + 10//4 - Mod(-1, 4)", NumberOf);
  ASSERT_TRUE(expr.ok());
  EXPECT_EQ(expr->code_size(), 0);
  EXPECT_EQ(expr->value(), 5);
}

TEST(SymText, NamesWhatItCannotSay) {
  for (const char* text : {"s0/2", "s0**s53", "floor(s0)", "u7 + 1"}) {
    const auto expr = ParseSymText(text, NumberOf);
    EXPECT_EQ(ReasonOf(expr.status()), ErrorReason::kUnsupportedOp) << text;
  }
}

TEST(SymText, RefusesWhatIsNoExpression) {
  for (const char* text : {"", "s0 +", "(s0", "Mod(s0)", "3 4", "s0)", "*",
                           "99999999999999999999"}) {
    const auto expr = ParseSymText(text, NumberOf);
    EXPECT_EQ(ReasonOf(expr.status()), ErrorReason::kMalformedGraph) << text;
  }
  const std::string deep(100000, '(');
  EXPECT_FALSE(ParseSymText(deep, NumberOf).ok());
}

TEST(SymText, VisitsNamesButNotFunctions) {
  std::vector<std::string> names;
  VisitSymbolNames("Max(s0, 4*s53)//u7",
                   [&](absl::string_view name) { names.emplace_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"s0", "s53", "u7"}));
}

}  // namespace
}  // namespace kiln

#include "compiler/graph/graph_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph/text_cursor.h"

namespace kiln {
namespace {

constexpr absl::string_view kAll = R"(
// Everything the text can say.
graph @tail(N in [2, 64] = 8, M in [0, 9] = 3) on cuda(%x: f32[N, 4] align 16, int M, %w: bf16[4, 8] strides [1, 4] offset 2) -> (%y, %s strides [1, N], 2*N, none) {
  guard N < 32 "pad: because \"so\""
  %c = constant i64[1] 0x0500000000000000
  %s = add.Tensor(%x, 1.5, alpha=2) : f32[N, 4]
  %v, %i = max.dim(%s, 1) : f32[N], i64[N]
  %f = full([N // 2, 4], -inf, dtype=f16) : f16[N // 2, 4]
  %e = embedding(%w, %c) : bf16[1, 8]
  %k = clone(%s, memory_format=contiguous_format) : f32[N, 4]
  %j = cat([%s, %k], 1) : f32[N, 8]
  %y = t(%j) : f32[8, N] strides [1, 8]
  mutate %x = %k
}
)";

TEST(GraphText, WhatIsPrintedIsReadBack) {
  const auto graph = ParseGraph(kAll);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::string text = PrintGraph(*graph);
  const auto again = ParseGraph(text);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(PrintGraph(*again), text);
  // The range is narrowed by the guard; all else is as written.
  EXPECT_NE(text.find("N in [2, 31] = 8"), std::string::npos) << text;
  EXPECT_NE(text.find("%f = full([N // 2, 4], -inf, dtype=f16)"),
            std::string::npos)
      << text;
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
}

TEST(GraphText, MetasMayBeLeftToInference) {
  const auto graph = ParseGraph(R"(
    graph @g(N)(%x: f32[N, 256], %b: f32[256]) -> (%y) {
      %s = add.Tensor(%x, %b)
      %y = relu(%s)
    })");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(PrintGraph(*graph).find("%y = relu(%s) : f32[N, 256]"),
            std::string::npos);
  EXPECT_EQ(graph->shapes.symbols[0].source.kind, SymbolSource::Kind::kSize);
}

TEST(GraphText, UnnamedValuesGetNamesThatDiffer) {
  auto graph =
      ParseGraph("graph @g()(%add: f32[2]) -> (%add) { %add_1 = relu(%add) }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const ValueId x{0};
  ASSERT_TRUE(graph->AddNode(*FindOpByText("add.Tensor"), {x, x}).ok());
  EXPECT_EQ(ValueNames(*graph),
            (std::vector<std::string>{"add", "add_1", "add_2"}));
}

TEST(GraphText, MistakesAreNamedWithTheirLine) {
  const auto message = [](absl::string_view text) {
    const auto graph = ParseGraph(text);
    return std::string(graph.status().message());
  };
  EXPECT_EQ(message("graph @g()(%x: f32[2]) -> (%y) {\n  %y = rely(%x)\n}"),
            "line 2: found 'rely(%x)', expected an operator");
  EXPECT_EQ(message("graph @g()(%x: f32[2]) -> (%y) {\n}"),
            "output %y is never defined");
  EXPECT_EQ(
      message("graph @g()(%x: f32[Q]) -> () {}"),
      "line 1: found 'Q]) -> () {}', expected expression: found 'Q]) -> () "
      "{}', expected a known variable");
  EXPECT_NE(message("graph @g()() -> () { %y = relu(%z) }"), "");
  EXPECT_NE(message(std::string(100000, '(')), "");
}

// The message for a graph with this text between '@g' and its body.
std::string HeaderMistake(absl::string_view header) {
  return std::string(ParseGraph(absl::StrCat("graph @g", header, " -> () {}"))
                         .status()
                         .message());
}

TEST(GraphText, SymbolsHaveNamesOfTheirOwnAndHintsInTheirRanges) {
  EXPECT_EQ(
      HeaderMistake("(8 in [0, 9])()"),
      "line 1: found '8 in [0, 9])() -> () {}', expected a symbol's name");
  EXPECT_EQ(HeaderMistake("(N.a)()"),
            "line 1: found 'N.a)() -> () {}', expected a symbol's name");
  EXPECT_EQ(HeaderMistake("(N,\nN)()"),
            "line 2: found 'N)() -> () {}', expected a symbol other than N, "
            "which is taken");
  EXPECT_EQ(HeaderMistake("(N in [5, 2])()"),
            "line 1: found '2])() -> () {}', expected a number of at least 5");
  for (const absl::string_view hint : {"1", "10"}) {
    EXPECT_EQ(HeaderMistake(absl::StrCat("(N in [2, 9] = ", hint, ")()")),
              absl::StrCat("line 1: found '", hint,
                           ")() -> () {}', expected a hint in [2, 9]"));
  }
  EXPECT_EQ(HeaderMistake("(N in [2, 9] hint 3)()"),
            "line 1: found 'hint 3)() -> () {}', expected a hint in the form "
            "'= 8'");
  EXPECT_EQ(HeaderMistake("(_N in [2, 9] = 9, M_1 in [5, 5])()"), "");
}

TEST(GraphText, CommasStandBetweenTheItemsOfAList) {
  EXPECT_EQ(HeaderMistake("(N M)()"),
            "line 1: found 'M)() -> () {}', expected ',' or ')'");
  EXPECT_EQ(HeaderMistake("(N,)()"),
            "line 1: found ')() -> () {}', expected a symbol's name");
  EXPECT_EQ(HeaderMistake("()(%x: f32[2] %y: f32[2])"),
            "line 1: found '%y: f32[2]) -> () {}', expected ',' or ')'");
  EXPECT_EQ(HeaderMistake("()(%x: f32[2 3])"),
            "line 1: found '3]) -> () {}', expected ',' or ']'");
  const auto mistake = [](absl::string_view rest) {
    return std::string(
        ParseGraph(absl::StrCat("graph @g()(%x: f32[2, 2]) -> ", rest))
            .status()
            .message());
  };
  EXPECT_EQ(mistake("(%x %x) {}"),
            "line 1: found '%x) {}', expected ',' or ')'");
  EXPECT_EQ(mistake("() {\n%y = add.Tensor(%x %x)\n}"),
            "line 2: found '%x)', expected ',' or ')'");
  EXPECT_EQ(mistake("() {\n%y = cat([%x %x], 1)\n}"),
            "line 2: found '%x], 1)', expected ',' or ']'");
  EXPECT_EQ(mistake("() {\n%y = cat([%x, %x],, 1)\n}"),
            "line 2: found ', 1)', expected expression: found ', 1)\n}', "
            "expected a number, a name or a bracket");
}

TEST(FloatText, ReadsBackToTheSameBits) {
  for (const double d : {0.0, 1.0, -1.5, 1e-5, 0.1, 1.0 / 3, 1e300, 5e-324,
                         0.35355339059327373, 1e15, 123456789.0}) {
    const std::string text = FloatText(d);
    TextCursor again(text);
    double back = 0;
    ASSERT_TRUE(again.TakeFloat(&back)) << text;
    EXPECT_EQ(back, d) << text;
  }
  EXPECT_EQ(FloatText(std::nan("")), "nan");
  EXPECT_EQ(FloatText(-std::numeric_limits<double>::infinity()), "-inf");
}

}  // namespace
}  // namespace kiln

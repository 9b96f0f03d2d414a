// What inference gives, operator by operator. The numbers are PyTorch's, from
// its eager mode.

#include "compiler/graph/infer_meta.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/graph/graph_text.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Example {
  absl::string_view inputs;  // "%a: f32[4], %b: f32[4]"
  absl::string_view call;
  absl::string_view results;  // "f32[4]"; several are separated by " ; "
};

absl::StatusOr<Graph> Infer(const Example& e, size_t results) {
  std::string names = "%r0";
  for (size_t i = 1; i < results; ++i) absl::StrAppend(&names, ", %r", i);
  return ParseGraph(absl::StrCat("graph @g(N in [2, 1000] = 6)(", e.inputs,
                                 ") -> () {\n", names, " = ", e.call, "\n}"));
}

void ExpectInferred(const Example& e) {
  const std::vector<std::string> due = absl::StrSplit(e.results, " ; ");
  const auto graph = Infer(e, due.size());
  ASSERT_TRUE(graph.ok()) << e.call << ": " << graph.status();
  const Node& node = graph->nodes()[0];
  for (size_t i = 0; i < due.size(); ++i) {
    EXPECT_EQ(ToText(graph->meta(node.results[i]),
                     [](Var) { return std::string("N"); }),
              due[i])
        << e.call << " of " << e.inputs;
  }
}

TEST(InferMeta, TypesArePromotedByCategory) {
  for (const Example& e : std::vector<Example>{
           {"%a: i32[4], %b: f16[4]", "add.Tensor(%a, %b)", "f16[4]"},
           {"%a: f16[4], %b: f32[]", "add.Tensor(%a, %b)", "f16[4]"},
           {"%a: f16[4], %b: bf16[4]", "add.Tensor(%a, %b)", "f32[4]"},
           {"%a: i64[4]", "mul.Tensor(%a, 2.5)", "f32[4]"},
           {"%a: f64[4]", "mul.Tensor(%a, 2.5)", "f64[4]"},
           {"%a: bool[4]", "add.Tensor(%a, 1)", "i64[4]"},
           {"%a: u8[4], %b: i8[4]", "add.Tensor(%a, %b)", "i16[4]"},
           {"%a: i64[4], %b: i64[4]", "div.Tensor(%a, %b)", "f32[4]"},
           {"%a: i64[4]", "div.Tensor_mode(%a, 2, rounding_mode=\"floor\")",
            "i64[4]"},
           {"%a: i32[4]", "exp(%a)", "f32[4]"},
           {"%a: bf16[4]", "exp(%a)", "bf16[4]"},
           {"%a: f32[4], %b: i64[4]", "lt.Tensor(%a, %b)", "bool[4]"},
           {"%c: bool[4], %a: i32[], %b: f16[4]", "where.self(%c, %a, %b)",
            "f16[4]"},
           {"%a: bool[4]", "sum(%a)", "i64[]"},
           {"%a: i8[4, 2]", "cumsum(%a, 1)", "i64[4, 2]"}}) {
    ExpectInferred(e);
  }
}

TEST(InferMeta, ElementwiseResultsLieAsTheirOperandsDo) {
  for (const Example& e : std::vector<Example>{
           {"%a: f32[4, 1], %b: f32[3]", "add.Tensor(%a, %b)", "f32[4, 3]"},
           {"%a: f32[4, 8] strides [1, 4]", "exp(%a)",
            "f32[4, 8] strides [1, 4]"},
           {"%a: f32[4, 8] strides [1, 4], %b: f32[8]", "add.Tensor(%a, %b)",
            "f32[4, 8] strides [1, 4]"},
           {"%a: f32[4, 8] strides [1, 4], %b: f32[4, 8]", "add.Tensor(%a, %b)",
            "f32[4, 8] strides [1, 4]"},
           {"%a: f32[4, 8] strides [16, 2]", "neg(%a)", "f32[4, 8]"},
           {"%a: f32[2, 3, 4, 5] strides [60, 1, 15, 3]", "relu(%a)",
            "f32[2, 3, 4, 5] strides [60, 1, 15, 3]"},
           {"%a: f32[2, 8] strides [0, 1]", "clone(%a)", "f32[2, 8]"},
           {"%a: f32[2, 7]", "prims.copy_strided(%a, [8, 1])",
            "f32[2, 7] strides [8, 1]"},
           {"%a: f32[8, 2] strides [1, 8]",
            "clone(%a, memory_format=contiguous_format)", "f32[8, 2]"},
           {"%a: f32[N, 4], %b: f32[4]", "mul.Tensor(%a, %b)", "f32[N, 4]"}}) {
    ExpectInferred(e);
  }
}

TEST(InferMeta, ViewsFollowTheirMemory) {
  for (const Example& e : std::vector<Example>{
           {"%a: f32[4, 6]", "view(%a, [2, 2, -1])", "f32[2, 2, 6]"},
           {"%a: f32[4, 6] strides [1, 4]", "view(%a, [4, 2, 3])",
            "f32[4, 2, 3] strides [1, 12, 4]"},
           {"%a: f32[N, 6]", "view(%a, [-1])", "f32[6*N]"},
           {"%a: f32[N, 6]", "view(%a, [6, -1])", "f32[6, N]"},
           {"%a: f32[4, 6]", "t(%a)", "f32[6, 4] strides [1, 6]"},
           {"%a: f32[4, 6]", "select.int(%a, 1, -1)",
            "f32[4] strides [6] offset 5"},
           {"%a: f32[4, 6]", "slice.Tensor(%a, 1, 1, 9223372036854775807, 2)",
            "f32[4, 3] strides [6, 2] offset 1"},
           {"%a: f32[4, N]", "slice.Tensor(%a, 1, 0, -1)",
            "f32[4, N - 1] strides [N, 1]"},
           {"%a: f32[4, 1]", "expand(%a, [2, -1, 3])",
            "f32[2, 4, 3] strides [0, 1, 0]"},
           {"%a: f32[4, 6]", "unsqueeze(%a, -1)", "f32[4, 6, 1]"},
           {"%a: f32[1, 4, 1]", "squeeze(%a)", "f32[4]"},
           {"%a: f32[4, 6]", "diagonal(%a, 1)", "f32[4] strides [7] offset 1"},
           {"%a: f32[4, 5]", "split.Tensor(%a, 2, 1)",
            "f32[4, 2] strides [5, 1] ; f32[4, 2] strides [5, 1] offset 2 ; "
            "f32[4, 1] strides [5, 1] offset 4"},
           {"%a: f32[2, 3]", "unbind.int(%a)", "f32[3] ; f32[3] offset 3"}}) {
    ExpectInferred(e);
  }
}

TEST(InferMeta, TheOtherFamilies) {
  for (const Example& e : std::vector<Example>{
           {"%a: f32[4, 6, 8]", "sum.dim_IntList(%a, [0, -1], true)",
            "f32[1, 6, 1]"},
           {"%a: f32[4, 6]", "max.dim(%a, 1)", "f32[4] ; i64[4]"},
           {"%a: f32[4, 6]", "argmax(%a)", "i64[]"},
           {"%a: bf16[N, 6], %b: bf16[6, 3]", "mm(%a, %b)", "bf16[N, 3]"},
           {"%x: f32[2, 3, 9, 9], %w: f32[8, 3, 3, 3]",
            "convolution(%x, %w, none, [2, 2], [1, 1], [1, 1], false, [0, 0], "
            "1)",
            "f32[2, 8, 5, 5]"},
           {"%x: f32[2, 3, 9, 9] strides [243, 1, 27, 3], %w: f32[8, 3, 1, 1]",
            "convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], "
            "1)",
            "f32[2, 8, 9, 9] strides [648, 1, 72, 8]"},
           {"%a: f32[2, 5, 8], %w: f32[8]",
            "native_layer_norm(%a, [8], %w, none, 1e-05)",
            "f32[2, 5, 8] ; f32[2, 5, 1] ; f32[2, 5, 1]"},
           {"%w: f32[10, 4], %i: i64[2, N]", "embedding(%w, %i)",
            "f32[2, N, 4]"},
           {"%a: f32[4, 5, 6], %i: i64[3, 1], %j: i64[2]",
            "index.Tensor(%a, [none, %i, %j])", "f32[4, 3, 2]"},
           {"%a: f32[4, 5, 6], %i: i64[3], %j: i64[3]",
            "index.Tensor(%a, [%i, none, %j])", "f32[3, 5]"},
           {"%a: f32[2, 3], %b: f16[4, 3]", "cat([%a, %b])", "f32[6, 3]"},
           {"%a: f32[2, 3]", "constant_pad_nd(%a, [1, 2], 0.0)", "f32[2, 6]"},
           {"%a: f32[1, 4, 7, 7]",
            "max_pool2d_with_indices(%a, [3, 3], [2, 2], [1, 1])",
            "f32[1, 4, 4, 4] ; i64[1, 4, 4, 4]"},
           {"int N", "arange(N)", "i64[N]"},
           {"int N", "full([N, 2], 1.5)", "f32[N, 2]"},
           {"%a: f32[4]", "add_.Tensor(%a, 1)", "f32[4]"}}) {
    ExpectInferred(e);
  }
}

TEST(InferMeta, WhatPyTorchRefusesIsRefused) {
  for (const Example& e : std::vector<Example>{
           {"%a: f32[4, 3]", "narrow.default(%a, 0, 2, 3)", "narrow: start 2"},
           {"%a: f32[4], %b: f32[3]", "add.Tensor(%a, %b)", "broadcast"},
           {"%a: f32[4, 6], %b: f32[4, 6]", "mm(%a, %b)", "product of"},
           {"%a: f32[4, 6], %b: f64[6, 4]", "mm(%a, %b)", "one dtype"},
           {"%a: f32[4, 6]", "view(%a, [5, -1])", "do not hold"},
           {"%a: f32[4, 6]", "sum.dim_IntList(%a, [2])", "dim 2, expected in"},
           {"%a: f32[4, 6]", "sum.dim_IntList(%a, [0, 0])", "stands twice"},
           {"%a: f32[4, 6]", "select.int(%a, 0, 4)", "index 4"},
           {"%a: f32[4, 6]", "slice.Tensor(%a, 0, 0, 4, 0)", "step 0"},
           {"%a: f32[]", "select_scatter(%a, %a, 0, 0)", "rank 0"},
           {"%a: f32[]", "slice_scatter(%a, %a)", "rank 0"},
           {"%a: f32[]", "select_backward(%a, [], 0, 0)", "rank 0"},
           {"%a: f32[]", "slice_backward(%a, [], 0, 0, 1, 1)", "rank 0"},
           {"%a: f32[]", "select_backward(%a, [4], 0, 4)", "index 4"},
           {"%a: f32[4], %b: f32[]", "select_scatter(%a, %b, 0, -5)",
            "index -5"},
           {"%a: f32[4]", "bitwise_and.Tensor(%a, %a)", "bits of a float"},
           {"%a: bool[4]", "sub.Tensor(%a, %a)", "bool from bool"},
           {"%a: i64[4]", "mean(%a)", "expected a float dtype"},
           {"%a: f32[2, 3], %b: f32[2, 4]", "cat([%a, %b])", "cat of"},
           {"%a: f32[4], %b: f32[2, 4]", "add_.Tensor(%a, %b)", "writes"},
           {"%a: f32[1]", "expand(%a, [-2])", "sizes of 0 or more"},
           {"%a: f32[6]", "view(%a, [-2, -3])", "sizes of 0 or more"},
           {"%a: f32[2, 6]", "prims.copy_strided(%a, [1])", "expected 2"},
           {"%a: f32[2, 6]", "prims.copy_strided(%a, [0, 1])", "1 or more"},
           {"%a: f32[4], %i: f32[2]", "index.Tensor(%a, [%i])",
            "expected i64"}}) {
    const auto graph = Infer(e, 1);
    EXPECT_EQ(ReasonOf(graph.status()), ErrorReason::kMalformedGraph)
        << e.call << ": " << graph.status();
    EXPECT_TRUE(absl::StrContains(graph.status().message(), e.results))
        << e.call << ": " << graph.status();
  }
}

TEST(InferMeta, HugeResultsAreRefused) {
  for (const Example& e : std::vector<Example>{
           {"%a: f32[1]", "expand(%a, [1099511627776])", "2^40 elements"},
           {"%a: f32[1048576]", "unbind.int(%a)", "1048576 results"},
           {"%a: f32[1048576]", "split.Tensor(%a, 1)", "1048576 results"}}) {
    const auto graph = Infer(e, 1);
    EXPECT_EQ(ReasonOf(graph.status()), ErrorReason::kTooLarge)
        << e.call << ": " << graph.status();
    EXPECT_TRUE(absl::StrContains(graph.status().message(), e.results))
        << graph.status();
  }
}

TEST(InferMeta, HintsDecideWhereNothingElseDoes) {
  const auto graph = ParseGraph(
      "graph @g(N in [0, 9] = 1)(%a: f32[N], %b: f32[4]) -> () {\n"
      "%r = add.Tensor(%a, %b)\n}");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToText(graph->meta(graph->nodes()[0].results[0])), "f32[4]");
  ASSERT_FALSE(graph->shapes.guards().empty());
  EXPECT_EQ(graph->shapes.symbols[0].range, (ValueRange{1, 1}));
}

}  // namespace
}  // namespace kiln

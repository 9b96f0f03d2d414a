#include "compiler/graph/call_limits.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The first refusal of the graph's calls; empty when all are taken.
std::string RefusalOf(absl::string_view text, Graph* after = nullptr) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return "no graph";
  std::string refusal;
  for (const Node& node : graph->nodes()) {
    const absl::Status status = CheckCall(*graph, node);
    if (status.ok()) continue;
    EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp);
    if (refusal.empty()) refusal = std::string(status.message());
  }
  if (after != nullptr) *after = *std::move(graph);
  return refusal;
}

// Of one call on x.
std::string RefusalOf(absl::string_view x, absl::string_view call) {
  return RefusalOf(absl::StrCat("graph @g()(%x: ", x,
                                ") -> (%y) {\n  %y = ", call, "\n}\n"));
}

TEST(CallLimits, TheLargestOfNoElementsIsRefused) {
  for (const char* call :
       {"max(%x)", "min(%x)", "amax(%x)", "amin(%x, [])", "amax(%x, [0])",
        "argmax(%x)", "argmin(%x, 0)", "amax(%x, [1, -2])"}) {
    EXPECT_TRUE(absl::StrContains(RefusalOf("f32[0, 5]", call),
                                  ": no elements to choose from"))
        << call;
    EXPECT_EQ(RefusalOf("f32[3, 5]", call), "") << call;
  }
}

TEST(CallLimits, NothingIsChosenForEmptyResultsAndSumsHaveAValue) {
  EXPECT_EQ(RefusalOf("f32[0, 5]", "amax(%x, [1])"), "");
  EXPECT_EQ(RefusalOf("f32[0, 5]", "argmax(%x, -1)"), "");
  EXPECT_EQ(RefusalOf("f32[0, 5]", "sum(%x)"), "");
  EXPECT_EQ(RefusalOf("f32[0, 5]", "linalg_vector_norm(%x, 2.0)"), "");
  EXPECT_NE(RefusalOf("f32[0, 5]", "linalg_vector_norm(%x, -1.0)"), "");
}

TEST(CallLimits, ListsOfNormsAreRefusedForTheirMembers) {
  const auto norms = [](absl::string_view last, absl::string_view order) {
    return RefusalOf(absl::StrCat("graph @g()(%x: f32[4], %z: ", last,
                                  ") -> (%a, %b) {\n  %a, %b = "
                                  "_foreach_norm.Scalar([%x, %z], ",
                                  order, ")\n}\n"));
  };
  EXPECT_EQ(norms("f32[0, 5]", "2"), "");
  EXPECT_EQ(norms("f32[0, 5]", "inf"),
            "aten._foreach_norm.Scalar: no elements to choose from");
  EXPECT_EQ(norms("f32[0, 5]", "-2"),
            "aten._foreach_norm.Scalar: no elements to choose from");
  EXPECT_EQ(norms("i64[5]", "2"), "aten._foreach_norm.Scalar: dtype i64");
  EXPECT_EQ(norms("f32[5]", "2, f16"),
            "aten._foreach_norm.Scalar: dtype f32 as f16");
  EXPECT_EQ(norms("f32[5]", "2, f64"), "");
  EXPECT_EQ(norms("f32[5]", "true"),
            "aten._foreach_norm.Scalar: a boolean order");
}

TEST(CallLimits, AReductionOverASymbolTakesAGuardThatThereIsSomething) {
  Graph graph;
  EXPECT_EQ(RefusalOf(R"(
    graph @g(s0 in [0, 64] = 4)(%x: f32[s0]) -> (%y) {
      %y = max(%x)
    })",
                      &graph),
            "");
  ASSERT_EQ(graph.shapes.guards().size(), 1u);
  EXPECT_TRUE(graph.shapes.KnownLt(0, graph.shapes.guards()[0].right));
  EXPECT_NE(RefusalOf(R"(
    graph @g(s0 in [0, 64] = 0)(%x: f32[s0]) -> (%y) {
      %y = max(%x)
    })"),
            "");
}

TEST(CallLimits, AnIntegerIsNotDividedByALiteralZero) {
  for (const char* call :
       {"floor_divide.Scalar(%x, 0)", "remainder.Scalar(%x, 0)",
        "fmod.Scalar(%x, 0)", "div.Tensor_mode(%x, 0, \"trunc\")"}) {
    EXPECT_TRUE(absl::StrContains(RefusalOf("i64[4]", call),
                                  ": an integer divided by 0"))
        << call;
    EXPECT_EQ(RefusalOf("f32[4]", call), "") << call;
  }
  EXPECT_EQ(RefusalOf("i64[4]", "div.Scalar(%x, 0)"), "");
  EXPECT_EQ(RefusalOf("i64[4]", "remainder.Scalar(%x, 0.0)"), "");
  EXPECT_EQ(RefusalOf("i64[4]", "remainder.Scalar(%x, 3)"), "");
}

TEST(CallLimits, IntegersThatNoLibraryTakesAreRefused) {
  EXPECT_EQ(RefusalOf("i8[4, 4]", "mm(%x, %x)"),
            "aten.mm.default: a product of i8");
  EXPECT_EQ(RefusalOf("i64[4, 4]", "mm(%x, %x)"), "");
  EXPECT_EQ(RefusalOf("i64[1, 2, 4, 4]", "avg_pool2d(%x, [2, 2])"),
            "aten.avg_pool2d.default: dtype i64");
  EXPECT_EQ(RefusalOf(R"(
    graph @g()(%x: i64[1, 2, 4, 4], %w: i64[2, 2, 3, 3]) -> (%y) {
      %y = convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    })"),
            "aten.convolution.default: dtype i64");
}

TEST(CallLimits, BooleansArePutButNotSummed) {
  const auto put = [](absl::string_view accumulate) {
    return RefusalOf(absl::StrCat(
        "graph @g()(%x: bool[4], %i: i64[2], %v: bool[2]) -> (%y) {\n",
        "  %y = put(%x, %i, %v, ", accumulate, ")\n}\n"));
  };
  EXPECT_EQ(put("true"), "aten.put.default: sums of booleans");
  EXPECT_EQ(put("false"), "");
}

}  // namespace
}  // namespace kiln

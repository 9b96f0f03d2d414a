// Which outputs share memory before the pipeline, share it after it.
#include "compiler/graph_passes/separate_results.h"

#include <vector>

#include "compiler/graph/graph_text.h"
#include "compiler/graph/graph_verifier.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

Graph Parsed(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// Equal letters for outputs that share memory; in capitals that of an input.
std::string Sharing(const Graph& graph) {
  std::string letters;
  std::vector<uint32_t> seen;
  for (const ResultMemory& result : MemoriesOfResults(graph)) {
    size_t k = 0;
    while (k < seen.size() && seen[k] != result.memory) ++k;
    if (k == seen.size()) seen.push_back(result.memory);
    const bool input = result.memory < graph.inputs.size();
    letters.push_back(static_cast<char>((input ? 'A' : 'a') + k));
  }
  return letters;
}

struct Outcome {
  std::string sharing;
  int copies = 0;
};

// Of the graph after all passes.
Outcome AfterPasses(absl::string_view text) {
  Graph graph = Parsed(text);
  std::vector<PassRecord> records;
  PassEnv env;
  env.options.diagnostic.verify_passes = true;
  EXPECT_EQ(RunGraphPipeline(graph, env, records), absl::OkStatus());
  EXPECT_EQ(VerifyGraph(graph), absl::OkStatus());
  Outcome outcome{Sharing(graph), 0};
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "aten.clone.default") ++outcome.copies;
  }
  return outcome;
}

TEST(SeparateResults, EqualValuesThatWereTwoNodesAreTwoMemories) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4]) -> (%a, %b, %c) {
      %a = add.Tensor(%x, 1)
      %b = add.Tensor(%x, 1)
      %c = add.Tensor(%x, 1)
    })");
  EXPECT_EQ(outcome.sharing, "abc");
  EXPECT_EQ(outcome.copies, 2);
}

TEST(SeparateResults, OneNodeGivenAwayTwiceStaysOneMemoryWithoutACopy) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4]) -> (%a, %a, %v) {
      %a = add.Tensor(%x, 1)
      %v = view(%a, [2, 2])
    })");
  EXPECT_EQ(outcome.sharing, "aaa");
  EXPECT_EQ(outcome.copies, 0);
}

TEST(SeparateResults, EqualFillsAreTwoMemories) {
  EXPECT_EQ(AfterPasses(R"(
    graph @g()() -> (%a, %b) {
      %a = zeros([3])
      %b = zeros([3])
    })")
                .sharing,
            "ab");
}

TEST(SeparateResults, ARollByNothingIsNotItsInput) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4, 4]) -> (%a, %b, %x) {
      %a = roll(%x, [0], [1])
      %b = roll(%x, [8], [0])
    })");
  EXPECT_EQ(outcome.sharing, "abC");
  EXPECT_EQ(outcome.copies, 2);
}

TEST(SeparateResults, ARollByNothingOfAMadeValueNeedsNoCopy) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4]) -> (%b) {
      %a = sin(%x)
      %b = roll(%a, [4], [0])
    })");
  EXPECT_EQ(outcome.sharing, "a");
  EXPECT_EQ(outcome.copies, 0);
}

TEST(SeparateResults, AViewOfAnInputStaysOne) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4, 2]) -> (%t, %x) {
      %t = transpose.int(%x, 0, 1)
    })");
  EXPECT_EQ(outcome.sharing, "AA");
  EXPECT_EQ(outcome.copies, 0);
}

// Both views lie in the second memory, so they are taken of one copy.
TEST(SeparateResults, ViewsOfASecondMemoryAreViewsOfOneCopy) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4, 2]) -> (%a, %b, %t, %s) {
      %a = mul.Tensor(%x, %x)
      %b = mul.Tensor(%x, %x)
      %t = transpose.int(%b, 0, 1)
      %s = select.int(%t, 0, 1)
    })");
  EXPECT_EQ(outcome.sharing, "abbb");
  EXPECT_EQ(outcome.copies, 1);
}

TEST(SeparateResults, WhatAnInputHoldsAtTheEndIsNoOtherResult) {
  const Outcome outcome = AfterPasses(R"(
    graph @g()(%x: f32[4]) -> (%a, %m) {
      %a = add.Tensor(%x, 1)
      %m = add_.Tensor(%x, 1)
    })");
  EXPECT_EQ(outcome.sharing, "ab");
  EXPECT_EQ(outcome.copies, 1);
}

TEST(SeparateResults, ACopyOfAPermutedValueIsLaidOutAsIt) {
  Graph graph = Parsed(R"(
    graph @g()(%x: f32[4, 2]) -> (%a, %b) {
      %t = transpose.int(%x, 0, 1)
      %a = sin(%t)
      %b = sin(%t)
    })");
  std::vector<PassRecord> records;
  ASSERT_EQ(RunGraphPipeline(graph, PassEnv{}, records), absl::OkStatus());
  const auto strides = [&](size_t k) {
    return graph.meta(std::get<ValueId>(graph.outputs[k].what)).strides;
  };
  EXPECT_EQ(strides(1), strides(0));
  EXPECT_EQ(strides(0), (DimVector{1, 2}));
}

}  // namespace
}  // namespace kiln

#include "compiler/graph/graph_verifier.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "compiler/graph/graph_text.h"

namespace kiln {
namespace {

Graph Parsed(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

void ExpectBroken(const Graph& graph, absl::string_view rule) {
  const absl::Status status = VerifyGraph(graph);
  EXPECT_TRUE(absl::StartsWith(status.message(), rule)) << status;
}

constexpr absl::string_view kSound = R"(
graph @g(N)(%x: f32[N, 4]) -> (%y) {
  %s = add.Tensor(%x, %x) : f32[N, 4]
  %y = relu(%s) : f32[N, 4]
})";

TEST(GraphVerifier, ASoundGraphIsSound) {
  EXPECT_TRUE(VerifyGraph(Parsed(kSound)).ok());
}

TEST(GraphVerifier, ANumberMayBeNan) {
  EXPECT_TRUE(VerifyGraph(Parsed(R"(graph @g()(%x: f32[4]) -> (%y) {
      %f = full([], nan) : f32[]
      %s = add.Tensor(%x, nan) : f32[4]
      %y = add.Tensor(%s, %f) : f32[4]
    })"))
                  .ok());
}

TEST(GraphVerifier, EachRuleIsChecked) {
  Graph g = Parsed(kSound);
  g.inputs.clear();
  ExpectBroken(g, "G1 at %x");

  ExpectBroken(Parsed(R"(graph @g()(%x: f32[4]) -> () {
      %y = relu(%x) : f32[5]
    })"),
               "G4 at %y = relu: found f32[5], inference gives f32[4]");

  g = Parsed(kSound);
  g.shapes.symbols.clear();
  ExpectBroken(g, "G5 at %x");

  g = Parsed(kSound);
  g.outputs[0].strides.clear();
  ExpectBroken(g, "G6 at output 0");

  g = Parsed(kSound);
  g.mutations.push_back({std::get<ValueId>(g.outputs[0].what), ValueId{0}});
  ExpectBroken(g, "G7 at %y");

  ExpectBroken(Parsed(R"(graph @g()() -> () {
      %c = constant f32[2] 0x00000000
    })"),
               "G8 at %c");
}

}  // namespace
}  // namespace kiln

#include "client/graph_builder.h"

#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "proto/key/canonical_graph.h"

namespace kiln {
namespace {

// relu(x + b), x: f32[N, 256].
wire::Graph BiasRelu() {
  GraphBuilder g("bias_relu");
  const SizeExpr n = g.Symbol("N", {.hint = 64});
  const TensorSpec wide = {DType::kFloat32, {n, 256}};
  const Value x = g.Input("x", wide);
  const Value b = g.Input("b", {DType::kFloat32, {256}});
  const Value s = g.Node("aten.add.Tensor", {x, b}, wide);
  g.Output(g.Node("aten.relu.default", {s}, wide));
  const auto graph = g.Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : wire::Graph();
}

TEST(GraphBuilder, WhatItBuildsIsWellFormed) {
  const auto canonical = CanonicalizeGraph(BiasRelu());
  EXPECT_TRUE(canonical.ok()) << canonical.status();
}

TEST(GraphBuilder, ATensorWithoutStridesIsContiguous) {
  const wire::Graph graph = BiasRelu();
  const wire::TensorMeta& x = graph.inputs(0).tensor();
  ASSERT_EQ(x.strides_size(), 2);
  EXPECT_EQ(x.strides(0).value(), 256);
  EXPECT_EQ(x.strides(1).value(), 1);
}

// On a GPU what nobody said is what kernels load at once.
TEST(GraphBuilder, AnInputsAlignmentIsThatOfItsDeviceUnlessItIsGiven) {
  for (const bool cuda : {false, true}) {
    GraphBuilder g("alignment",
                   cuda ? wire::DEVICE_TYPE_CUDA : wire::DEVICE_TYPE_CPU);
    const TensorSpec spec = {DType::kFloat32, {2}};
    g.Output(g.Node("aten.add.Tensor",
                    {g.Input("x", spec), g.Input("y", spec, 4)}, spec));
    const auto graph = g.Build();
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->inputs(0).alignment_bytes(), cuda ? 16u : 0u);
    EXPECT_EQ(graph->inputs(1).alignment_bytes(), 4u);
  }
}

TEST(GraphBuilder, ValuesCountInputsThenConstantsThenResults) {
  GraphBuilder g("order");
  const Value x = g.Input("x", {DType::kFloat32, {2}});
  const Value c = g.Constant("c", {DType::kFloat32, {2}}, "12345678");
  const auto sum = g.Nodes("aten.add.Tensor", {x, c}, {{DType::kFloat32, {2}}});
  EXPECT_EQ(x.number(), 0);
  EXPECT_EQ(c.number(), 1);
  EXPECT_EQ(sum[0].number(), 2);
}

TEST(GraphBuilder, SizesOfNumbersFoldAndSizesOfSymbolsDoNot) {
  GraphBuilder g("sizes");
  const SizeExpr n = g.Symbol("N");
  EXPECT_EQ((SizeExpr(3) * 4 + 1).constant(), 13);
  EXPECT_EQ((n * 2).constant(), std::nullopt);
  EXPECT_EQ((n * 1).wire().code_size(), 1);
}

TEST(GraphBuilder, TheFirstMistakeIsKept) {
  GraphBuilder g("late");
  const Value x = g.Input("x", {DType::kFloat32, {2}});
  g.Output(g.Node("aten.relu.default", {x}, {DType::kFloat32, {2}}));
  g.Input("too_late", {DType::kFloat32, {2}});
  EXPECT_EQ(ReasonOf(g.Build().status()), ErrorReason::kMalformedGraph);

  GraphBuilder short_constant("short");
  short_constant.Constant("c", {DType::kFloat32, {2}}, "1234");
  EXPECT_EQ(short_constant.Build().status().message(),
            "constant c: found 4 bytes, expected 8");
}

}  // namespace
}  // namespace kiln

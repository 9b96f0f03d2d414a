#include "compiler/graph/op_table.h"

#include <gtest/gtest.h>

#include "compiler/graph/graph.h"
#include "compiler/graph/schema_parser.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

TEST(OpTable, EveryRowIsSoundAndStandsOnce) {
  EXPECT_TRUE(CheckOpTable().ok()) << CheckOpTable();
  for (const OpDef& op : AllOps()) {
    EXPECT_EQ(FindOp(op.name), &op) << op.name;
    EXPECT_EQ(op.index, static_cast<uint32_t>(&op - AllOps().data()));
    // What asserts something gives nothing.
    EXPECT_EQ(op.schema.results.empty(), PacketName(op.name) == "_assert_async")
        << op.name;
    EXPECT_EQ(op.handling == Handling::kMutate, op.functional != nullptr);
  }
}

TEST(OpTable, AnUnknownNameIsAnsweredWithItsNeighbours) {
  EXPECT_EQ(FindOp("aten.ad.Tensor"), nullptr);
  const absl::Status status = UnknownOp("aten.ad.Tensor");
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp);
  EXPECT_NE(status.message().find("aten.add.Tensor"), std::string::npos)
      << status;
  EXPECT_LT(UnknownOp(std::string(1 << 20, 'x')).message().size(), 300u);
}

TEST(OpTable, InPlaceFormsKnowTheirFunctionalOnes) {
  const OpDef* op = FindOp("aten.add_.Tensor");
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->functional, FindOp("aten.add.Tensor"));
  EXPECT_TRUE(op->schema.params[0].mutated);
  EXPECT_EQ(FindOp("aten.copy_.default")->functional,
            FindOp("aten.copy.default"));
}

TEST(Schema, AliasesDefaultsAndListsAreRead) {
  const auto schema = ParseSchema(
      "(Tensor(a!) self, int[2] stride=1, *, float? x=None, str mode='no') -> "
      "(Tensor(a!), Tensor[])");
  ASSERT_TRUE(schema.ok()) << schema.status();
  ASSERT_EQ(schema->params.size(), 4u);
  EXPECT_TRUE(schema->params[0].mutated);
  EXPECT_EQ(schema->params[1].default_value,
            Argument(Argument::List{Argument(1), Argument(1)}));
  EXPECT_TRUE(schema->params[2].keyword_only);
  EXPECT_TRUE(schema->params[2].default_value.is_none());
  EXPECT_EQ(schema->params[3].default_value, Argument(std::string("no")));
  EXPECT_EQ(schema->results[0].alias_set, 0);
  EXPECT_TRUE(schema->results[1].list);
  EXPECT_FALSE(ParseSchema("(Tenser self) -> Tensor").ok());
}

TEST(Graph, NodesAreInferredAndEdited) {
  Graph graph;
  const ValueId x =
      graph.AddInput("x", ContiguousMeta(DType::kInt32, {4, 1}), 4);
  const ValueId y =
      graph.AddInput("y", ContiguousMeta(DType::kFloat16, {3}), 2);
  const auto sum = graph.AddNode(KnownOp("aten.add.Tensor"), {x, y}, "sum");
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(ToText(graph.meta(sum->front())), "f16[4, 3]");
  const auto relu = graph.AddNode(KnownOp("aten.relu.default"), {(*sum)[0]});
  ASSERT_TRUE(relu.ok());
  graph.outputs.push_back({(*sum)[0], {}});
  EXPECT_TRUE(graph.RetainNodes({true, false}));
  EXPECT_EQ(graph.nodes().size(), 1u);

  EXPECT_EQ(
      ReasonOf(graph.AddNode(KnownOp("aten.mm.default"), {x, y}).status()),
      ErrorReason::kMalformedGraph);
  EXPECT_EQ(ReasonOf(graph.AddNode(KnownOp("aten.mm.default"), {x}).status()),
            ErrorReason::kMalformedGraph);
}

}  // namespace
}  // namespace kiln

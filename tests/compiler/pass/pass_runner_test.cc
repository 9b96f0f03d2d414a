#include "compiler/pass/pass_runner.h"

#include <gtest/gtest.h>

#include "compiler/config/compile_options_from_wire.h"
#include "compiler/graph/op_table.h"
#include "compiler/pass/graph_inspection.h"

namespace kiln {
namespace {

absl::StatusOr<Changed> DropAllNodes(Graph& graph, const PassEnv&) {
  return graph.RetainNodes(std::vector<bool>(graph.nodes().size(), false))
             ? Changed::kYes
             : Changed::kNo;
}
absl::StatusOr<Changed> LieAboutIt(Graph& graph, const PassEnv&) {
  graph.name = "other";
  return Changed::kNo;
}
absl::StatusOr<Changed> BreakStrides(Graph& graph, const PassEnv&) {
  graph.outputs[0].strides.clear();
  return Changed::kYes;
}
absl::StatusOr<Changed> Fail(Graph&, const PassEnv&) {
  return MakeError(ErrorReason::kUnsupportedOp, "aten.zebra.default");
}

Graph Sample() {
  auto graph = ParseGraph(R"(
    graph @g()(%x: f32[2]) -> (%x) {
      %y = relu(%x)
    })");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

absl::Status RunAll(std::initializer_list<Pass<Graph>> passes, Graph& graph,
                    std::vector<PassRecord>& records,
                    const PassRunOptions& options = {}) {
  PassEnv env;
  env.options.diagnostic = {.dump_passes = true, .verify_passes = true};
  return RunPasses<Graph>(passes, graph, env, kGraphInspection, records,
                          options);
}

TEST(PassRunner, EachPassLeavesARecordAndItsText) {
  Graph graph = Sample();
  std::vector<PassRecord> records;
  ASSERT_TRUE(RunAll({{"drop_all_nodes", DropAllNodes},
                      {"drop_all_nodes", DropAllNodes}},
                     graph, records)
                  .ok());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "drop_all_nodes");
  EXPECT_EQ(records[0].dump, "graph @g()(%x: f32[2]) -> (%x) {\n}\n");
  EXPECT_EQ(records[1].dump, "");  // the second had nothing to do
  EXPECT_EQ(records[0].left, 0);   // nodes
}

TEST(PassRunner, ASkippedPassDoesNotRun) {
  Graph graph = Sample();
  std::vector<PassRecord> records;
  ASSERT_TRUE(RunAll({{"drop_all_nodes", DropAllNodes}}, graph, records,
                     {.skip = {"drop_all_nodes"}})
                  .ok());
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(PassRunner, FailuresNameThePass) {
  std::vector<PassRecord> records;
  Graph graph = Sample();
  EXPECT_EQ(RunAll({{"break_strides", BreakStrides}}, graph, records).message(),
            "after break_strides: G6 at output 0: strides [] for f32[2]");
  graph = Sample();
  EXPECT_EQ(RunAll({{"lie_about_it", LieAboutIt}}, graph, records,
                   {.check_changed = true})
                .message(),
            "after lie_about_it: it says that nothing changed");
  const absl::Status failed = RunAll({{"fail", Fail}}, graph, records);
  EXPECT_EQ(failed.message(), "fail: aten.zebra.default");
  EXPECT_EQ(ReasonOf(failed), ErrorReason::kUnsupportedOp);
}

TEST(CompileOptions, NumbersOutOfRangeAreRefused) {
  wire::CompileOptions wire;
  EXPECT_EQ(CompileOptionsFromWire(wire)->artifact.max_fusion_size, 64);
  wire.mutable_artifact()->set_max_fusion_size(8);
  EXPECT_EQ(CompileOptionsFromWire(wire)->artifact.max_fusion_size, 8);
  wire.mutable_artifact()->set_max_fusion_size(1 << 20);
  EXPECT_EQ(ReasonOf(CompileOptionsFromWire(wire).status()),
            ErrorReason::kBadOption);
}

TEST(CompileOptions, AThresholdOfOneUnrollsNoReduction) {
  wire::CompileOptions wire;
  EXPECT_EQ(CompileOptionsFromWire(wire)->artifact.unroll_reductions_threshold,
            8);
  wire.mutable_artifact()->set_unroll_reductions_threshold(1);
  EXPECT_EQ(CompileOptionsFromWire(wire)->artifact.unroll_reductions_threshold,
            1);
  wire.mutable_artifact()->set_unroll_reductions_threshold(65);
  EXPECT_EQ(CompileOptionsFromWire(wire).status().message(),
            "unroll_reductions_threshold: found 65, expected at most 64");
}

TEST(CompileOptions, ReductionsAreSplitUnlessTheWireSaysNo) {
  wire::CompileOptions wire;
  EXPECT_TRUE(CompileOptionsFromWire(wire)->artifact.split_reductions);
  wire.mutable_artifact()->set_no_split_reductions(true);
  EXPECT_FALSE(CompileOptionsFromWire(wire)->artifact.split_reductions);
}

}  // namespace
}  // namespace kiln

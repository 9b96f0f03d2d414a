#include "compiler/graph_passes/graph_pipeline.h"

#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph_text.h"
#include "compiler/reference/run_reference.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

Graph Parsed(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

absl::Status RunPipeline(Graph& graph) {
  PassEnv env;
  env.options.diagnostic.verify_passes = true;
  std::vector<PassRecord> records;
  return RunGraphPipeline(graph, env, records);
}

TEST(VerifyLowerable, P1ACompositeIsNotLowered) {
  const Graph graph =
      Parsed("graph @g()(%x: f32[2]) -> (%y) {\n  %y = silu(%x)\n}\n");
  const absl::Status status = VerifyLowerable(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message().substr(0, 6), "P1 at ");
}

TEST(VerifyLowerable, P2AnInputsMemoryIsNoOtherInputsNewValue) {
  Graph graph = Parsed("graph @g()(%x: f32[2], %w: f32[2]) -> (%x) {\n}\n");
  graph.mutations.push_back({ValueId{1}, ValueId{0}});
  EXPECT_EQ(VerifyLowerable(graph).message().substr(0, 6), "P2 at ");
}

// {pass: patterns that it replaced}, of passes that replaced some.
std::map<std::string, int64_t> PatternsOf(absl::string_view text) {
  Graph graph = Parsed(text);
  std::vector<PassRecord> records;
  EXPECT_TRUE(RunGraphPipeline(graph, PassEnv{}, records).ok());
  std::map<std::string, int64_t> found;
  for (const PassRecord& record : records) {
    if (record.patterns > 0) found[record.name] += record.patterns;
  }
  return found;
}

TEST(GraphPipeline, APatternIsCountedWhereItIsReplacedAndNowhereElse) {
  using Found = std::map<std::string, int64_t>;
  // Two scatters on one base.
  EXPECT_EQ(PatternsOf(R"(
    graph @two()(%i: i64[4, 1], %j: i64[1, 8]) -> (%y, %z) {
      %base = zeros([4, 8])
      %y = scatter.value(%base, 1, %i, 2.5)
      %z = scatter.value(%base, 0, %j, 1.5)
    })"),
            (Found{{"scatter_upon_const", 2}}));
  // An index that is too short, a base that is not one number.
  EXPECT_EQ(PatternsOf(R"(
    graph @none()(%i: i64[2, 1], %x: f32[4, 8]) -> (%y, %z) {
      %base = zeros([4, 8])
      %y = scatter.value(%base, 1, %i, 2.5)
      %z = scatter.value(%x, 1, %i, 1.5)
    })"),
            Found());
}

TEST(GraphPipeline, TwoInputsMayChangePlaces) {
  Graph graph = Parsed(R"(
    graph @swap()(%x: f32[2], %w: f32[2]) -> (%k) {
      %k = clone(%x)
      %a = copy_(%x, %w)
      %b = copy_(%w, %k)
    })");
  ASSERT_TRUE(RunPipeline(graph).ok());
  const RefTensor ones = RefTensor::FromBytes(
      DType::kFloat32, {2}, absl::string_view("\0\0\x80\x3f\0\0\x80\x3f", 8));
  const RefTensor zeros = RefTensor::Zeros(DType::kFloat32, {2});
  const RefValue inputs[] = {ones, zeros};
  const auto outcome = RunReference(graph, inputs);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(std::get<RefTensor>(outcome->inputs[0]).Bytes(), zeros.Bytes());
  EXPECT_EQ(std::get<RefTensor>(outcome->inputs[1]).Bytes(), ones.Bytes());
}

TEST(GraphPipeline, ABatchNormInTrainingWritesItsRunningStatistics) {
  Graph graph = Parsed(R"(
    graph @bn()(%x: f32[4, 3], %m: f32[3], %v: f32[3]) -> (%y) {
      %y, %a, %b = native_batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-05)
    })");
  ASSERT_TRUE(RunPipeline(graph).ok());
  EXPECT_EQ(graph.mutations.size(), 2u);
}

}  // namespace
}  // namespace kiln

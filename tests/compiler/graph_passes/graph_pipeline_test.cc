#include "compiler/graph_passes/graph_pipeline.h"

#include <cmath>
#include <cstring>
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

// Numbers of both signs, none near 0.
RefTensor Doubles(std::vector<int64_t> sizes, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const double size = 0.5 + (seed >> 16) / 65536.0;
    const double number = (seed & 256) != 0 ? size : -size;
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return RefTensor::FromBytes(DType::kFloat64, std::move(sizes), bytes);
}

TEST(GraphPipeline, WhatIsFoldedIntoAConvolutionGivesTheSameNumbers) {
  Graph graph = Parsed(R"(
    graph @g()(%x: f64[3, 4, 8, 7], %w: f64[6, 2, 3, 3], %b: f64[6], %m: f64[6], %v: f64[6], %s: f64[6, 1, 1], %t: f64[1, 6, 1, 1], %u: f64[1]) -> (%y) {
      %c = convolution(%x, %w, %b, [2, 1], [1, 0], [1, 1], false, [0, 0], 2)
      %n, %p, %q = _native_batch_norm_legit_no_training(%c, %m, none, %m, %v, 0.1, 1e-05)
      %d = div.Tensor(%n, %s)
      %e = add.Tensor(%t, %d, 1)
      %f = mul.Tensor(%e, %u)
      %g = sub.Tensor(%f, %s, 1)
      %y = relu(%g)
    })");
  const Graph given = graph;
  std::vector<PassRecord> records;
  ASSERT_TRUE(RunGraphPipeline(graph, PassEnv{}, records).ok());
  int64_t folded = 0;
  for (const PassRecord& record : records) {
    if (record.name == "fold_into_convolutions") folded += record.patterns;
  }
  EXPECT_EQ(folded, 7);

  RefTensor variance = Doubles({6}, 5);
  std::string squares = variance.Bytes();
  for (size_t i = 0; i < squares.size(); i += sizeof(double)) {
    double number;
    std::memcpy(&number, &squares[i], sizeof(number));
    number *= number;
    std::memcpy(&squares[i], &number, sizeof(number));
  }
  variance = RefTensor::FromBytes(DType::kFloat64, {6}, squares);
  const RefValue inputs[] = {Doubles({3, 4, 8, 7}, 1),
                             Doubles({6, 2, 3, 3}, 2),
                             Doubles({6}, 3),
                             Doubles({6}, 4),
                             variance,
                             Doubles({6, 1, 1}, 6),
                             Doubles({1, 6, 1, 1}, 7),
                             Doubles({1}, 8)};
  const auto due = RunReference(given, inputs),
             got = RunReference(graph, inputs);
  ASSERT_TRUE(due.ok()) << due.status();
  ASSERT_TRUE(got.ok()) << got.status();
  const std::string due_bytes = std::get<RefTensor>(due->outputs[0]).Bytes();
  const std::string got_bytes = std::get<RefTensor>(got->outputs[0]).Bytes();
  ASSERT_EQ(due_bytes.size(), got_bytes.size());
  ASSERT_EQ(due_bytes.size(), 3 * 6 * 4 * 5 * sizeof(double));
  int64_t positive = 0;
  for (size_t i = 0; i < due_bytes.size(); i += sizeof(double)) {
    double a, b;
    std::memcpy(&a, &due_bytes[i], sizeof(a));
    std::memcpy(&b, &got_bytes[i], sizeof(b));
    EXPECT_NEAR(a, b, 1e-11 * (1 + std::abs(a)));
    positive += a > 0 ? 1 : 0;
  }
  EXPECT_GT(positive, 0);
}

}  // namespace
}  // namespace kiln

#include "compiler/schedule/metrics.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/plan_pipeline.h"
#include "gtest/gtest.h"

// Counted by hand: what Inductor's own tests expect of these graphs, and each
// rule of the model by itself. The bytes of a graph are one number for both
// targets.

namespace kiln {
namespace {

struct Counted {
  const char* what;
  const char* values;  // inputs -> outputs
  const char* body;    // a node a line
  int64_t bytes;
};

int64_t BytesOn(const Counted& c, absl::string_view device,
                absl::string_view target_name) {
  absl::StatusOr<Graph> graph = ParseGraph(
      absl::StrCat("graph @g()", device, c.values, " {\n", c.body, "\n}\n"));
  const absl::StatusOr<Target> target = TargetFromName(target_name);
  EXPECT_TRUE(graph.ok() && target.ok()) << graph.status();
  if (!graph.ok()) return -1;
  const PassEnv env{*target, CompileOptions()};
  std::vector<PassRecord> records;
  EXPECT_TRUE(RunGraphPipeline(*graph, env, records).ok());
  absl::StatusOr<LoopProgram> program = LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return -1;
  const auto plan = PlanKernels(*std::move(program), env);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? CountLaunches(*plan).bytes : -1;
}

void ExpectBytes(std::initializer_list<Counted> all) {
  for (const Counted& c : all) {
    EXPECT_EQ(BytesOn(c, " on cuda", "sm_90"), c.bytes) << c.what;
    EXPECT_EQ(BytesOn(c, "", "x86-64-v3"), c.bytes) << c.what;
  }
}

TEST(Bytes, OfInductorsOwnExamples) {
  ExpectBytes({
      {"cos", "(%a: f32[10]) -> (%y)", "%y = cos(%a)", 4 * 20},
      {"x + y", "(%a: f32[10, 10], %b: f32[10, 10]) -> (%y)",
       "%y = add.Tensor(%a, %b)", 4 * 300},
      {"a broadcast", "(%a: f32[10, 10], %b: f32[10]) -> (%y)",
       "%y = add.Tensor(%a, %b)", 4 * 210},
      {"x + x, one place", "(%a: f32[10]) -> (%y)", "%y = add.Tensor(%a, %a)",
       4 * 20},
      {"x + x transposed, two places of one buffer",
       "(%a: f32[10, 10]) -> (%y)",
       "%t = t(%a)\n"
       "%y = add.Tensor(%a, %t)",
       4 * 200},
      {"two results", "(%a: f32[10], %b: f32[10], %c: f32[10]) -> (%y, %z)",
       "%y = cos(%a)\n"
       "%s = sin(%b)\n"
       "%r = sin(%c)\n"
       "%z = add.Tensor(%s, %r)",
       4 * 50},
      {"a sum of rows", "(%a: f32[10, 10]) -> (%y)",
       "%y = sum.dim_IntList(%a, [1])", 4 * 110},
      {"softmax", "(%a: f32[10, 10]) -> (%y)", "%y = _softmax(%a, 1, false)",
       4 * 200},
      {"softmax of softmax", "(%a: f32[10, 10]) -> (%y)",
       "%s = _softmax(%a, 1, false)\n"
       "%y = _softmax(%s, 1, false)",
       4 * 200},
      {"softmax backward", "(%a: f32[10, 10], %b: f32[10, 10]) -> (%y)",
       "%y = _softmax_backward_data(%a, %b, 1, f32)", 4 * 300},
      {"a gather of 10 of 10 by int32", "(%a: f32[10], %b: i32[10]) -> (%y)",
       "%y = index.Tensor(%a, [%b])", 4 * 30},
      {"two parts put together", "(%a: f32[10], %b: f32[10]) -> (%y)",
       "%y = cat([%a, %b])", 4 * 40},
      {"layer norm", "(%a: f32[10, 10], %w: f32[10], %b: f32[10]) -> (%y)",
       "%y, %m, %r = native_layer_norm(%a, [10], %w, %b, 1e-05)", 4 * 220},
      {"cos and sin, put together by the kernel that computes them",
       "(%a: f32[10]) -> (%y)",
       "%c = cos(%a)\n"
       "%s = sin(%a)\n"
       "%y = cat([%c, %s])",
       4 * 30},
  });
}

TEST(Bytes, OfLibraryCallsAreTheirOperandsAndResults) {
  ExpectBytes({
      {"mm of one operand twice", "(%a: f32[10, 10]) -> (%y)",
       "%y = mm(%a, %a)", 4 * 200},
      {"mm of two", "(%a: f32[10, 10], %b: f32[10, 10]) -> (%y)",
       "%y = mm(%a, %b)", 4 * 300},
      {"cos, mm, cos", "(%a: f32[10, 10]) -> (%y)",
       "%c = cos(%a)\n"
       "%m = mm(%c, %c)\n"
       "%y = cos(%m)",
       4 * 600},
      {"mm of cos and sin", "(%a: f32[10, 10]) -> (%y)",
       "%c = cos(%a)\n"
       "%s = sin(%a)\n"
       "%y = mm(%c, %s)",
       4 * 600},
      {"a window of a buffer, which counts whole",
       "(%a: f32[20, 10], %b: f32[10, 10]) -> (%y)",
       "%w = slice.Tensor(%a, 0, 0, 10)\n"
       "%y = mm(%w, %b)",
       4 * (200 + 100 + 100)},
  });
}

TEST(Bytes, OfPartsAreNoMoreThanTheirPoints) {
  ExpectBytes({
      {"a slice", "(%a: f32[100, 10]) -> (%y)",
       "%w = slice.Tensor(%a, 0, 0, 3)\n"
       "%y = cos(%w)",
       4 * (30 + 30)},
      {"two places of one buffer", "(%a: f32[100, 10]) -> (%y)",
       "%v = slice.Tensor(%a, 0, 0, 3)\n"
       "%w = slice.Tensor(%a, 0, 10, 13)\n"
       "%y = add.Tensor(%v, %w)",
       4 * (60 + 30)},
      {"an embedding: its rows, and an index for each of its points",
       "(%a: f32[1000, 8], %i: i64[4]) -> (%y)", "%y = embedding(%a, %i)",
       4 * (32 + 32) + 8 * 4},
  });
}

TEST(Bytes, OfMergedNestsAndSharedLaunchesAreWholeBuffers) {
  ExpectBytes({
      {"the maximum and sum of rows of a table, which one kernel reads",
       "(%a: f32[1000, 8], %i: i64[4]) -> (%y)",
       "%e = embedding(%a, %i)\n"
       "%y = _softmax(%e, 1, false)",
       4 * (8000 + 32) + 8 * 4},
      {"slices of two sizes, in one launch",
       "(%a: f32[100], %b: f32[200]) -> (%x, %y)",
       "%v = slice.Tensor(%a, 0, 0, 3)\n"
       "%w = slice.Tensor(%b, 0, 0, 5)\n"
       "%x = cos(%v)\n"
       "%y = cos(%w)",
       4 * (100 + 3 + 200 + 5)},
  });
}

TEST(Bytes, OfWhatIsWrittenOverCountTwice) {
  ExpectBytes({
      {"x.add_(1): what is read and changed, and what is written",
       "(%a: f32[10]) -> ()", "%y = add_.Tensor(%a, 1)", 4 * (10 + 10)},
      {"x.copy_(y)", "(%a: f32[10], %b: f32[10]) -> ()", "%y = copy_(%a, %b)",
       4 * (10 + 10 + 10)},
      {"a fill and a scatter into it", "(%i: i64[4, 2]) -> (%y)",
       "%f = full([4, 8], 0.0)\n"
       "%y = scatter.value(%f, 1, %i, 1.5)",
       4 * 32 + 8 * 8 + 4 * (8 + 8)},
      {"a copy, a scatter into it, and a copy back",
       "(%a: f32[4, 8], %i: i64[4, 1]) -> ()",
       "%s = scatter.value(%a, 1, %i, 1.5)\n"
       "%y = copy_(%a, %s)",
       5 * 4 * 32 + 8 * 4 + 4 * (4 + 4)},
      {"nine parts put together by two kernels, which meet nowhere",
       "(%a: f32[10]) -> (%y)",
       "%y = cat([%a, %a, %a, %a, %a, %a, %a, %a, %a])", 4 * (10 + 10 + 90)},
  });
}

}  // namespace
}  // namespace kiln

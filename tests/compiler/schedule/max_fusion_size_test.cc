// The option bounds each way in which loops come to share a kernel.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/plan_pipeline.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

struct Planned {
  int launches = 0;
  int most_loops = 0;  // of a launch, equal parts once
};

Planned Plan(absl::string_view graph_text, int max_fusion_size) {
  const auto graph = ParseGraph(graph_text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto program = LowerGraph(*graph);
  EXPECT_TRUE(program.ok()) << program.status();
  PassEnv env{*TargetFromName("sm_90"), {}};
  env.options.artifact.max_fusion_size = max_fusion_size;
  const auto plan = PlanKernels(*std::move(program), env);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Planned out;
  for (const PlannedStep& step : plan->steps) {
    int loops = 0;
    std::set<std::string> bodies;
    for (const PlannedKernel& kernel : KernelsOf(step)) {
      const KernelFingerprint body(kernel.nest, plan->buffers,
                                   FingerprintSizes::kFirstOpen);
      if (bodies.emplace(body.bytes()).second) loops += kernel.nest.loops();
    }
    out.launches += loops > 0 ? 1 : 0;
    out.most_loops = std::max(out.most_loops, loops);
  }
  EXPECT_LE(out.most_loops, max_fusion_size) << ToText(*plan);
  return out;
}

std::string Chain(int length) {
  std::string text = "graph @g() on cuda(%x0: f32[100000]) -> (%x" +
                     absl::StrCat(length) + ") {\n";
  for (int i = 0; i < length; ++i) {
    absl::StrAppend(&text, "  %x", i + 1, " = add.Tensor(%x", i, ", 1)\n");
  }
  return text + "}\n";
}

TEST(MaxFusionSize, BoundsWhatIsComputedWhereItIsRead) {
  EXPECT_EQ(Plan(Chain(12), 64).launches, 1);
  EXPECT_EQ(Plan(Chain(12), 12).launches, 1);
  EXPECT_EQ(Plan(Chain(12), 6).launches, 2);
  EXPECT_EQ(Plan(Chain(12), 5).launches, 3);
  EXPECT_EQ(Plan(Chain(12), 1).launches, 12);
}

// Each reads the two before it.
TEST(MaxFusionSize, CountsAProducerOnceThatComesByTwoWays) {
  std::string text =
      "graph @g() on cuda(%x0: f32[100000], %x1: f32[100000]) -> (%x25) {\n";
  for (int i = 2; i <= 25; ++i) {
    absl::StrAppend(&text, "  %x", i, " = add.Tensor(%x", i - 1, ", %x", i - 2,
                    ")\n");
  }
  text += "}\n";
  EXPECT_EQ(Plan(text, 64).launches, 1);
  for (const int most : {1, 2, 7, 20}) Plan(text, most);
}

TEST(MaxFusionSize, BoundsReductionsWithTheirNeighbours) {
  constexpr char kText[] = R"(graph @g() on cuda(%x: f32[64, 512]) -> (%y) {
  %a = amax(%x, [1], true)
  %s = sub.Tensor(%x, %a)
  %e = exp(%s)
  %n = sum.dim_IntList(%e, [1], true)
  %y = div.Tensor(%e, %n)
}
)";
  EXPECT_EQ(Plan(kText, 64).launches, 1);
  EXPECT_EQ(Plan(kText, 1).launches, 5);
  for (const int most : {2, 3, 4}) Plan(kText, most);
}

TEST(MaxFusionSize, BoundsKernelsThatShareALaunchButThoseOfEqualBodies) {
  constexpr char kText[] =
      R"(graph @g() on cuda(%a: f32[640], %b: f32[70], %c: f32[90]) -> (%x, %y, %z) {
  %x = exp(%a)
  %y = exp(%b)
  %z = cos(%c)
}
)";
  EXPECT_EQ(Plan(kText, 64).launches, 1);
  EXPECT_EQ(Plan(kText, 2).launches, 1);
  EXPECT_EQ(Plan(kText, 1).launches, 2);
}

// A constant and a count are no loops of their own.
TEST(MaxFusionSize, ConstantsAreNoLoops) {
  constexpr char kText[] = R"(graph @g() on cuda(%x: f32[64]) -> (%y) {
  %f = full([64], 2.0)
  %y = mul.Tensor(%x, %f)
}
)";
  EXPECT_EQ(Plan(kText, 1).launches, 1);
}

}  // namespace
}  // namespace kiln

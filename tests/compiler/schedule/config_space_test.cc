#include "compiler/schedule/config_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/schedule/choose_variant.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_pipeline.h"
#include "compiler/schedule/short_code.h"
#include "proto/base/status.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Sums of 4096 rows, after `changes`.
std::string Rows(
    const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  return absl::StrReplaceAll(R"(graph @rows()(%x: f32[4096, 1000]) -> (%y) {
  %y = sum.dim_IntList(%x, [1], false)
}
)",
                             changes);
}

// One for each way of mapping a kernel.
const std::vector<std::string>& Families() {
  static const auto& families = *new std::vector<std::string>{
      "graph @points()(%x: f32[1000, 1000]) -> (%y) {\n"
      "  %y = relu(%x)\n}\n",
      "graph @tiles()(%x: f32[1024, 512], %w: f32[512, 1024]) -> (%y) {\n"
      "  %t = permute(%x, [1, 0])\n  %y = add.Tensor(%w, %t)\n}\n",
      Rows(),
      "graph @columns()(%x: f32[4096, 1000]) -> (%y) {\n"
      "  %y = sum.dim_IntList(%x, [0], false)\n}\n",
      "graph @scans()(%x: f32[64, 5000]) -> (%y) {\n"
      "  %y = cumsum(%x, 1)\n}\n",
      "graph @sorts()(%x: f32[64, 1000]) -> (%v, %i) {\n"
      "  %v, %i = sort(%x)\n}\n",
      "graph @softmax()(%x: f32[512, 5000]) -> (%y) {\n"
      "  %y = _softmax(%x, 1, false)\n}\n"};
  return families;
}

PassEnv EnvOf(absl::string_view target, TuningTable tuning = {}) {
  return PassEnv{*TargetFromName(target), {}, std::move(tuning)};
}

// The key of a graph's first kernel.
std::string KeyOf(const std::string& graph, absl::string_view target) {
  const PassEnv env = EnvOf(target);
  const KernelPlan plan = NestsWith(graph, env);
  const auto space =
      ConfigsOf(std::get<PlannedKernel>(plan.steps.at(0)), plan, env);
  EXPECT_TRUE(space.ok()) << space.status();
  return space->Key();
}

TEST(TuningKey, NamesTheWorkItsSizesAndTheTarget) {
  EXPECT_THAT(KeyOf(Rows(), "sm_90"), StartsWith("reduce/f32/2^12x2^10/"));
  EXPECT_THAT(KeyOf(Rows(), "x86-64-v3"), testing::EndsWith("/x86-64-v3"));
  const char* works[] = {"points", "points", "reduce", "reduce",
                         "scan",   "sort",   "reduce"};
  for (size_t f = 0; f < Families().size(); ++f) {
    const std::string key = KeyOf(Families()[f], "sm_90");
    EXPECT_THAT(key, StartsWith(absl::StrCat(works[f], "/f32/2^")));
    EXPECT_THAT(key, Not(HasSubstr(" ")));
  }
}

TEST(TuningKey, EqualWorkHasEqualKeysAndOtherWorkOthers) {
  const std::string key = KeyOf(Rows(), "sm_90");
  // Names do not count, nor does the count of rows within its class.
  EXPECT_EQ(KeyOf(Rows({{"@rows", "@other"}, {"%x", "%input"}}), "sm_90"), key);
  EXPECT_EQ(KeyOf(Rows({{"4096", "100000"}}), "sm_90"),
            KeyOf(Rows({{"4096", "99968"}}), "sm_90"));
  std::set<std::string> keys = {key, KeyOf(Rows(), "sm_80")};
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{
           {"4096", "8192"},
           {"1000", "1001"},
           {"1000", "2000"},
           {"f32", "bf16"},
           {"sum.dim_IntList(%x, [1], false)", "amax(%x, [1], false)"}}) {
    EXPECT_TRUE(keys.insert(KeyOf(Rows({{from, to}}), "sm_90")).second)
        << from << " as " << to;
  }
}

TEST(TuningKey, ResultsThatBlocksMayShareCountExactly) {
  EXPECT_NE(KeyOf(Rows({{"4096", "12"}}), "sm_90"),
            KeyOf(Rows({{"4096", "13"}}), "sm_90"));
}

TEST(TuningKey, KernelsThatMayNotSplitHaveDecisionsOfTheirOwn) {
  PassEnv whole = EnvOf("sm_90");
  whole.options.artifact.split_reductions = false;
  const KernelPlan plan = NestsWith(Rows(), whole);
  const auto space =
      ConfigsOf(std::get<PlannedKernel>(plan.steps.at(0)), plan, whole);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_NE(space->Key(), KeyOf(Rows(), "sm_90"));
}

TEST(ConfigSpace, NoReductionIsSharedByBlocksWhereTheOptionsForbidIt) {
  std::vector<std::string> graphs = Families();
  // A few results, rows that are aligned and columns that are not.
  graphs.push_back(Rows({{"4096", "4"}, {"1000", "1000000"}}));
  graphs.push_back(Rows({{"4096", "1000000"}, {"1000", "63"}, {"[1]", "[0]"}}));
  for (const bool split : {true, false}) {
    int shared = 0;
    for (const std::string& graph : graphs) {
      PassEnv env = EnvOf("sm_90");
      env.options.artifact.split_reductions = split;
      const KernelPlan plan = NestsWith(graph, env);
      const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
      const auto space = ConfigsOf(kernel, plan, env);
      ASSERT_TRUE(space.ok()) << space.status();
      EXPECT_TRUE(space->preferred().price.fits) << graph;
      for (const KernelConfig& config : space->configs()) {
        const bool scan =
            std::holds_alternative<CudaScans>(config.variant) ||
            std::holds_alternative<CudaColumnScans>(config.variant);
        shared += PartsOf(config.variant) > 1 && !scan;
      }
    }
    EXPECT_EQ(shared > 0, split);
  }
}

TEST(ConfigSpace, WhatIsWorthMeasuringFitsAndStartsWithThePreferred) {
  for (const std::string& graph : Families()) {
    const PassEnv env = EnvOf("sm_90");
    const KernelPlan plan = NestsWith(graph, env);
    const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
    const auto space = ConfigsOf(kernel, plan, env);
    ASSERT_TRUE(space.ok()) << space.status();
    const std::vector<KernelConfig> worth = space->WorthMeasuring();
    ASSERT_THAT(worth, Not(IsEmpty()));
    EXPECT_LE(worth.size(), kMostMeasured);
    EXPECT_EQ(ToText(worth[0]), ToText(space->preferred()));
    std::set<std::string> texts;
    for (const KernelConfig& config : worth) {
      EXPECT_TRUE(config.price.fits);
      EXPECT_LE(config.price.ns, space->cheapest().price.ns * kWorthMeasuring);
      EXPECT_TRUE(texts.insert(ToText(config)).second) << ToText(config);
      // What is measured may be decided.
      EXPECT_EQ(ToText(*space->Find(ToText(config))), ToText(config));
    }
  }
}

// Of two points' variants within 1 % of each other the shorter is taken, and of
// softmaxes the one whose row has more threads.
TEST(ConfigSpace, CodeIsShorterWhereThePriceIsNearlyTheSame) {
  const PassEnv env = EnvOf("sm_90");
  for (const std::string& graph :
       {std::string("graph @points()(%x: bf16[16384, 3072], "
                    "%h: bf16[16384, 3072]) -> (%y) {\n"
                    "  %a = silu(%x)\n  %y = mul.Tensor(%a, %h)\n}\n"),
        std::string("graph @rows()(%x: f32[131072, 256]) -> (%y) {\n"
                    "  %y = _softmax(%x, 1, false)\n}\n")}) {
    const KernelPlan plan = NestsWith(graph, env);
    const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
    const auto space = ConfigsOf(kernel, plan, env);
    ASSERT_TRUE(space.ok()) << space.status();
    const KernelConfig& cheapest = space->cheapest();
    const KernelConfig& preferred = space->preferred();
    EXPECT_TRUE(preferred.price.fits);
    EXPECT_LE(preferred.price.ns, cheapest.price.ns * kNearTie);
    EXPECT_TRUE(DifferInLengthOnly(preferred.variant, cheapest.variant));
    EXPECT_LT(ElementsWritten(preferred.variant),
              ElementsWritten(cheapest.variant));
    // Kernels get it; fusion goes by the price alone.
    const TuningTable no_decisions;
    for (const bool kernels : {true, false}) {
      const auto choice =
          ChooseVariant(kernel.nest, plan.buffers, plan.shapes, env.target,
                        {.tuning = kernels ? &no_decisions : nullptr});
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(ToText(choice->config), ToText(kernels ? preferred : cheapest));
    }
  }
}

TEST(ConfigSpace, ColumnsAndStretchesDifferInMoreThanLength) {
  EXPECT_FALSE(DifferInLengthOnly(CudaColumns{.unroll = 4}, CudaColumns{}));
  EXPECT_FALSE(DifferInLengthOnly(CudaRows{.held = 6, .stretch = 32},
                                  CudaRows{.held = 3, .stretch = 32}));
  EXPECT_FALSE(DifferInLengthOnly(CudaRows{.vector = 8, .held = 3},
                                  CudaRows{.vector = 4, .held = 6}));
  EXPECT_FALSE(DifferInLengthOnly(CudaRows{.held = 3}, CudaRows{.held = 0}));
  EXPECT_TRUE(DifferInLengthOnly(CudaRows{.lanes = 32, .held = 6},
                                 CudaRows{.lanes = 64, .held = 3}));
  EXPECT_FALSE(DifferInLengthOnly(CudaPoints{.unroll = 4, .blocks = 512},
                                  CudaPoints{.unroll = 2}));
}

// As measured on an H100 (bench/records/gpu_kernels.md): two blocks of four warps do
// not fill a multiprocessor's schedulers, and two warps a row wait for each other.
TEST(ConfigSpace, StretchesAreCheapestWithEnoughWarpsThatDoNotWait) {
  const std::string graph =
      "graph @backward()(%g: bf16[65536, 768], %x: bf16[65536, 768], "
      "%m: f32[65536, 1], %r: f32[65536, 1], %w: bf16[768], %b: bf16[768]) -> "
      "(%dx, %dw, %db) {\n"
      "  %dx, %dw, %db = native_layer_norm_backward(%g, %x, [768], %m, %r, %w, "
      "%b, [true, true, true])\n}\n";
  const PassEnv env = EnvOf("sm_90");
  const KernelPlan plan = NestsWith(graph, env);
  const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
  const auto space = ConfigsOf(kernel, plan, env);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto price_of = [&](int vector, int lanes, int rows) {
    for (const KernelConfig& config : space->configs()) {
      const auto* v = std::get_if<CudaRows>(&config.variant);
      if (v != nullptr && v->stages == 2 && v->vector == vector &&
          v->lanes == lanes && v->rows == rows)
        return config.price.ns;
    }
    ADD_FAILURE() << "no such configuration";
    return 0.0;
  };
  EXPECT_LT(price_of(8, 32, 8), price_of(8, 32, 4));
  EXPECT_LT(price_of(8, 32, 4), price_of(4, 32, 4));
  EXPECT_LT(price_of(4, 64, 4), price_of(4, 64, 2));
  EXPECT_LT(price_of(8, 32, 8), price_of(4, 64, 4));
}

// As measured on an H100 (bench/records/gpu_kernels.md).
TEST(ConfigSpace, ScansOfRowsThatFitABlocksGroupsDoNotGoFromOneToTheNext) {
  const std::string graph =
      "graph @scan()(%x: f16[6125, 1000]) -> (%y) {\n"
      "  %y = cumsum(%x, 1)\n}\n";
  const PassEnv env = EnvOf("sm_90");
  const KernelPlan plan = NestsWith(graph, env);
  const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
  const auto space = ConfigsOf(kernel, plan, env);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto* scan = std::get_if<CudaScans>(&space->cheapest().variant);
  ASSERT_NE(scan, nullptr);
  EXPECT_EQ(scan->parts, 1);
  EXPECT_GE(scan->lanes * scan->unroll * scan->vector, 1000);
}

TEST(ChooseVariants, ADecisionIsTakenInEveryFamilyAndChangesNoKey) {
  for (const std::string& graph : Families()) {
    const PassEnv env = EnvOf("sm_90");
    const KernelPlan nests = NestsWith(graph, env);
    const auto& kernel = std::get<PlannedKernel>(nests.steps[0]);
    const auto space = ConfigsOf(kernel, nests, env);
    ASSERT_TRUE(space.ok()) << space.status();
    for (const KernelConfig& config : space->WorthMeasuring()) {
      const TuningTable tuning = {{space->Key(), ToText(config)}};
      const KernelPlan plan = PlanWith(graph, EnvOf("sm_90", tuning));
      EXPECT_EQ(plan.tuned.at(space->Key()), ToText(config)) << graph;
      EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus()) << ToText(plan);
      EXPECT_THAT(ToText(plan), HasSubstr(ToText(config.variant)));
    }
  }
}

TEST(ChooseVariants, ADecisionComesBeforeMemoryIsPlaced) {
  // A few long rows: the model has blocks share each.
  const std::string graph = Rows({{"4096", "4"}, {"1000", "1000000"}});
  const KernelPlan shared = PlanWith(graph, EnvOf("sm_90"));
  ASSERT_GT(PartsOf(std::get<PlannedKernel>(shared.steps[0]).variant), 1);
  ASSERT_FALSE(shared.tuned.empty());
  const std::string key = shared.tuned.begin()->first;

  const std::string whole =
      "cuda rows vector 4 lanes 1024 rows 1 held 0 hold_costly 0 unroll 4 "
      "parts 1 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 1"
      " whole 0 floats 512 once 0 branch 0 joined 0";
  const KernelPlan plan = PlanWith(graph, EnvOf("sm_90", {{key, whole}}));
  const auto& kernel = std::get<PlannedKernel>(plan.steps[0]);
  EXPECT_EQ(ToText(kernel.variant), whole);
  EXPECT_EQ(kernel.workspace, Workspace());
  EXPECT_EQ(plan.buffers.size() + 2, shared.buffers.size());
  EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus()) << ToText(plan);
}

TEST(ChooseVariants, ADecisionThatIsNoConfigurationIsIgnoredWithItsGround) {
  const std::string plain = ToText(PlanWith(Rows(), EnvOf("sm_90")));
  const std::string key = KeyOf(Rows(), "sm_90");
  for (const std::string& bad : std::vector<std::string>{
           "threads=128 rows=1", "cuda rows vector 3 lanes 7", "unmapped",
           "cpu rows accumulators 2 block 4096 grain 16384", "\n\x01 swirl",
           ""}) {
    const PassEnv env = EnvOf("sm_90", {{key, bad}});
    const KernelPlan plan = PlanWith(Rows(), env);
    EXPECT_EQ(ToText(plan), plain);
    // Named as it was met: an artifact is up to date while it is in force.
    EXPECT_EQ(plan.tuned.at(key), bad);
    const auto told = ExplainVariants(NestsWith(Rows(), env), env);
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_THAT(*told, HasSubstr(absl::StrCat("  key ", key, "\n")));
    EXPECT_THAT(*told, HasSubstr("\n  ignored: tuning decision \""));
  }
}

TEST(ChooseVariants, DecisionsAboutOtherKernelsChangeNothing) {
  const KernelPlan plan = PlanWith(
      Rows(), EnvOf("sm_90", {{"", "cuda serial threads 64 blocks 2048"},
                              {"reduce/f32/2^12x2^10/other/sm_90",
                               "cuda serial threads 64 blocks 2048"}}));
  EXPECT_EQ(ToText(plan), ToText(PlanWith(Rows(), EnvOf("sm_90"))));
  EXPECT_EQ(plan.tuned.begin()->second, "");
}

}  // namespace
}  // namespace kiln

// How a product is aligned, as tuning decisions say.

#include "compiler/schedule/align_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph_text.h"
#include "compiler/loop/loop_text.h"
#include "compiler/loop/loop_verifier.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/align_contractions.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/plan_pipeline.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

LoopProgram LoopsOf(absl::string_view text) {
  auto program = LowerGraph(*ParseGraph(text), {});
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

// Aligned by a decision, and checked against the graph's meaning.
LoopProgram Decided(absl::string_view text, const std::string& key,
                    const std::string& way) {
  const auto graph = ParseGraph(text);
  LoopProgram program = LoopsOf(text);
  AlignContractions(program, *TargetFromName("sm_90"), {}, {{key, way}});
  EXPECT_EQ(program.tuned, TuningTable({{key, way}}));
  const std::string loops = ToText(program);
  EXPECT_EQ(VerifyLoops(program), absl::OkStatus()) << loops;
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  EXPECT_TRUE(due.ok()) << due.status();
  const auto got = RunLoops(program, graph->constants, inputs);
  EXPECT_TRUE(got.ok()) << got.status() << loops;
  if (got.ok())
    ExpectClose(got->outputs[0], due->outputs[0], ToleranceOf(*graph), loops);
  return program;
}

std::string KeyOf(const TuningTable& tuned) {
  for (const auto& [key, decision] : tuned)
    if (absl::StartsWith(key, "way_align/")) return key;
  return "";
}

// Small enough to be left as they are without a decision.
constexpr absl::string_view kColumns = R"(
    graph @n() on cuda(%a: bf16[16, 24] align 16, %b: bf16[24, 21]) -> (%y) {
      %y = mm(%a, %b)
    })";
constexpr absl::string_view kSum = R"(
    graph @k() on cuda(%a: bf16[8, 523], %b: bf16[523, 16] align 16) -> (%y) {
      %y = mm(%a, %b)
    })";
constexpr absl::string_view kAll = R"(
    graph @all() on cuda(%a: f16[2, 523, 17], %b: f16[2, 523, 19]) -> (%y) {
      %t = permute(%a, [0, 2, 1])
      %y = bmm(%t, %b)
    })";
constexpr absl::string_view kRows = R"(
    graph @rows() on cuda(%a: bf16[32, 24] align 16, %b: bf16[33, 24] align 16)
        -> (%y) {
      %t = t(%b)
      %y = mm(%a, %t)
    })";

TEST(AlignWays, EachMeansTheSame) {
  std::set<std::string> seen;
  for (const absl::string_view text : {kColumns, kSum, kAll, kRows}) {
    SCOPED_TRACE(text);
    LoopProgram before = LoopsOf(text);
    const std::vector<LoopStep> steps = before.steps;
    EXPECT_EQ(AlignContractions(before, *TargetFromName("sm_90")).products, 0);
    const std::string key = KeyOf(before.tuned);
    ASSERT_NE(key, "");
    EXPECT_EQ(before.tuned.at(key), "");
    std::set<std::string> loops;
    const auto ways = AlignWaysOf(std::get<Contraction>(before.steps.back()),
                                  before, *TargetFromName("sm_90"), {});
    ASSERT_GE(ways.size(), 3u);
    EXPECT_EQ(ways[0].name, "plain");
    for (const AlignWay& way : ways) {
      SCOPED_TRACE(way.name);
      const LoopProgram program = Decided(text, key, way.name);
      EXPECT_TRUE(loops.insert(ToText(program)).second);
      EXPECT_EQ(ToText(program) == ToText(before), way.name == "plain");
      seen.insert(way.name);
      for (const LoopStep& step : program.steps) {
        const auto* c = std::get_if<Contraction>(&step);
        if (c == nullptr || way.name == "interleave") continue;
        EXPECT_EQ(c->tuned, absl::StrCat("tuned: align ", way.name));
      }
    }
  }
  EXPECT_THAT(seen, ElementsAre("interleave", "pad", "peel", "plain"));
}

// The program that a measurement times is the step as it was aligned.
TEST(AlignWays, EachAloneIsAsADecisionMakesIt) {
  LoopProgram program = LoopsOf(kAll);
  AlignContractions(program, *TargetFromName("sm_90"));
  const std::string key = KeyOf(program.tuned);
  const std::vector<StepAlone> ways =
      AlignedWays(LoopsOf(kAll), *TargetFromName("sm_90"), {}, {}, key);
  ASSERT_GE(ways.size(), 3u);
  for (const StepAlone& way : ways) {
    EXPECT_EQ(way.program.steps.size(),
              Decided(kAll, key, way.way).steps.size())
        << way.way;
  }
  EXPECT_THAT(AlignedWays(LoopsOf(kAll), *TargetFromName("sm_80"), {}, {}, key),
              IsEmpty());
  EXPECT_THAT(AlignedWays(LoopsOf(kAll), *TargetFromName("sm_90"), {}, {}, ""),
              IsEmpty());
}

// Logits of a vocabulary of 8 n + 1 words.
constexpr absl::string_view kLogits = R"(
    graph @g() on cuda(%x: bf16[8192, 768] align 16,
                       %w: bf16[50257, 768] align 16) -> (%y) {
      %t = t(%w)
      %y = mm(%x, %t)
    })";

PassEnv Env(absl::string_view target = "sm_90",
            const TuningTable& tuning = {}) {
  PassEnv env{*TargetFromName(target), {}};
  env.tuning = tuning;
  return env;
}

TEST(AlignWays, APlanTakesWhatADecisionNames) {
  const KernelPlan before = PlanWith(kLogits, Env());
  const std::string key = KeyOf(before.tuned);
  EXPECT_THAT(key, StartsWith("way_align/bf16/8192x50257x768/"));
  EXPECT_THAT(key, EndsWith("/sm_90"));
  EXPECT_EQ(before.tuned.at(key), "");
  std::set<std::string> plans;
  for (const char* way : {"plain", "peel", "pad", "interleave"}) {
    const KernelPlan plan = PlanWith(kLogits, Env("sm_90", {{key, way}}));
    EXPECT_EQ(plan.tuned.at(key), way);
    EXPECT_TRUE(plans.insert(ToText(plan)).second) << way;
    if (absl::string_view(way) == "interleave") continue;
    EXPECT_THAT(plan.contractions,
                Contains(EndsWith(absl::StrCat("; tuned: align ", way))));
  }
  // What is chosen without a decision is one of them.
  EXPECT_EQ(plans.count(ToText(before)), 1u);
}

TEST(AlignWays, WhatCannotBeTakenIsIgnored) {
  const KernelPlan before = PlanWith(kLogits, Env());
  const std::string key = KeyOf(before.tuned);
  for (const char* words : {"widest", "", "id66.tile20", "pad "}) {
    const KernelPlan plan = PlanWith(kLogits, Env("sm_90", {{key, words}}));
    EXPECT_EQ(ToText(plan), ToText(before)) << words;
    EXPECT_EQ(plan.tuned.at(key), words);
  }
  // Another chip has another key.
  const KernelPlan there = PlanWith(kLogits, Env("sm_80"));
  EXPECT_NE(KeyOf(there.tuned), key);
  EXPECT_EQ(ToText(PlanWith(kLogits, Env("sm_80", {{key, "plain"}}))),
            ToText(there));
}

TEST(AlignWays, TheReasonIsExplained) {
  const auto explained = [](const PassEnv& env) {
    const auto text = ExplainContractions(LoopsOf(kColumns), env);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  };
  const std::string key = KeyOf(PlanWith(kColumns, Env()).tuned);
  EXPECT_THAT(explained(Env()), testing::Not(HasSubstr("tuned")));
  EXPECT_THAT(explained(Env("sm_90", {{key, "pad"}})),
              HasSubstr("; tuned: align pad\n"));
  EXPECT_THAT(explained(Env("sm_90", {{key, "widest"}})),
              HasSubstr("; ignored: no way to align it is \"widest\"\n"));
}

TEST(AlignWays, ForcedPaddingForbidsPeeling) {
  const std::string key = KeyOf(PlanWith(kLogits, Env()).tuned);
  PassEnv forced = Env();
  forced.options.artifact.force_shape_pad = true;
  const KernelPlan before = PlanWith(kLogits, forced);
  // What is left has no choice, or none that peels.
  EXPECT_NE(KeyOf(before.tuned), key);
  for (const std::string& its : {key, KeyOf(before.tuned)}) {
    forced.tuning = {{its, "peel"}};
    EXPECT_EQ(ToText(PlanWith(kLogits, forced)), ToText(before));
  }
  for (const AlignWay& way :
       AlignWaysOf(std::get<Contraction>(LoopsOf(kColumns).steps.back()),
                   LoopsOf(kColumns), *TargetFromName("sm_90"),
                   AlignOptionsOf(forced.options.artifact))) {
    EXPECT_THAT(way.name, testing::Not(HasSubstr("peel")));
  }
}

TEST(AlignWays, AProductThatIsAlignedHasNoKey) {
  for (const absl::string_view form :
       {"%a: bf16[16, 24] align 16, %b: bf16[24, 32] align 16",
        "%a: bf16[16, 24] align 16, %b: bf16[24, 5]",
        "%a: f32[16, 24], %b: f32[24, 21]"}) {
    const std::string text = absl::StrCat("graph @g() on cuda(", form,
                                          ") -> (%y) {\n  %y = mm(%a, %b)\n}");
    EXPECT_EQ(KeyOf(PlanWith(text, Env()).tuned), "") << form;
  }
}

}  // namespace
}  // namespace kiln

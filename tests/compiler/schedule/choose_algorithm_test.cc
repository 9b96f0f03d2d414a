#include "compiler/schedule/choose_algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/schedule/plan_pipeline.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string Product(absl::string_view m, absl::string_view k = "128") {
  return absl::StrCat("graph @g()(%a: bf16[", m, ", ", k, "], %b: bf16[", k,
                      ", 512]) -> (%y) {\n  %y = mm(%a, %b)\n}\n");
}

KernelPlan Tuned(const std::string& graph, absl::string_view target,
                 const TuningTable& tuning) {
  PassEnv env{*TargetFromName(target), {}};
  env.tuning = tuning;
  return PlanWith(graph, env);
}

std::vector<const LibraryCall*> CallsOf(const KernelPlan& plan) {
  std::vector<const LibraryCall*> calls;
  for (const PlannedStep& step : plan.steps)
    if (const auto* call = std::get_if<LibraryCall>(&step))
      calls.push_back(call);
  return calls;
}

std::string KeyOf(const KernelPlan& plan) {
  for (const auto& [key, decision] : plan.tuned)
    if (absl::StartsWith(key, "mm/")) return key;
  return "";
}

std::string AlgorithmOf(const LibraryCall& call) {
  for (const Attribute& attribute : call.attributes)
    if (attribute.name == "algorithm")
      return std::get<std::string>(attribute.value);
  return "";
}

TEST(ChooseAlgorithm, AProductTakesWhatADecisionNames) {
  const KernelPlan before = PlanOf(Product("256"), "sm_90");
  const std::string key = KeyOf(before);
  EXPECT_THAT(key, StartsWith("mm/bf16/256x512x128/"));
  EXPECT_THAT(key, HasSubstr("/sm_90"));
  EXPECT_EQ(before.tuned.at(key), "");
  EXPECT_EQ(AlgorithmOf(*CallsOf(before).at(0)), "");

  const KernelPlan after =
      Tuned(Product("256"), "sm_90", {{key, "id66.tile20"}});
  EXPECT_EQ(KeyOf(after), key);
  EXPECT_EQ(after.tuned.at(key), "id66.tile20");
  EXPECT_EQ(AlgorithmOf(*CallsOf(after).at(0)), "id66.tile20");
}

TEST(ChooseAlgorithm, DeterministicModeKeepsWhatItFound) {
  PassEnv env{*TargetFromName("sm_90"), {}};
  env.options.artifact.deterministic = true;
  const KernelPlan before = PlanWith(Product("256"), env);
  const std::string key = KeyOf(before);
  EXPECT_EQ(before.tuned.at(key), "=");
  env.tuning = {{key, "id66.tile20"}};
  const KernelPlan after = PlanWith(Product("256"), env);
  EXPECT_EQ(after.tuned.at(key), "=id66.tile20");
  EXPECT_EQ(AlgorithmOf(*CallsOf(after).at(0)), "id66.tile20");
}

TEST(ChooseAlgorithm, AConvolutionTakesWhatADecisionNames) {
  const std::string graph =
      "graph @g() on cuda(%i: bf16[4, 8, 16, 16], %w: bf16[32, 8, 3, 3]) -> "
      "(%y) {\n"
      "  %y = convolution(%i, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], "
      "1)\n"
      "}\n";
  const auto key_of = [](const KernelPlan& plan) {
    for (const auto& [key, decision] : plan.tuned)
      if (absl::StartsWith(key, "convolution/")) return key;
    return std::string();
  };
  const KernelPlan before = PlanOf(graph, "sm_90");
  const std::string key = key_of(before);
  EXPECT_THAT(key, StartsWith("convolution/bf16/4x32x16x16/"));
  EXPECT_EQ(before.tuned.at(key), "");
  const KernelPlan after = Tuned(graph, "sm_90", {{key, "engine8.3=1"}});
  EXPECT_EQ(key_of(after), key);
  EXPECT_EQ(AlgorithmOf(*CallsOf(after).at(0)), "engine8.3=1");
  // A decision for another chip is for another key.
  EXPECT_NE(key_of(PlanOf(graph, "sm_80")), key);
  const KernelPlan other = Tuned(graph, "sm_80", {{key, "engine8.3=1"}});
  EXPECT_EQ(AlgorithmOf(*CallsOf(other).at(0)), "");
}

// Forward and backward of 128 queries to 64 keys.
std::string Attended(absl::string_view dropout) {
  return absl::StrCat(
      "graph @g() on cuda(%q: bf16[2, 8, 128, 64] align 16, "
      "%k: bf16[2, 2, 64, 64] align 16, %g: bf16[2, 8, 128, 64] align 16) -> "
      "(%o, %dq, %dk, %dv) {\n"
      "  %o, %l, %2, %3, %4, %5, %s, %f, %8 = "
      "_scaled_dot_product_cudnn_attention(%q, %k, %k, none, true, ",
      dropout,
      ", true)\n"
      "  %dq, %dk, %dv = _scaled_dot_product_cudnn_attention_backward(%g, %q, "
      "%k, %k, %o, %l, %s, %f, none, none, none, 128, 64, ",
      dropout, ", true)\n}\n");
}

std::vector<std::string> AttentionKeys(const KernelPlan& plan) {
  std::vector<std::string> keys;
  for (const auto& [key, decision] : plan.tuned)
    if (absl::StartsWith(key, "attention")) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST(ChooseAlgorithm, AttentionAndItsGradientTakeWhatDecisionsName) {
  const KernelPlan before = Tuned(Attended("0.0"), "sm_90", {});
  const std::vector<std::string> keys = AttentionKeys(before);
  ASSERT_THAT(
      keys, ElementsAre(StartsWith("attention/bf16/2x8x128x64x64/"),
                        StartsWith("attention_backward/bf16/2x8x128x64x64/")));
  const TuningTable decisions = {{keys[0], "engine8.3=1"},
                                 {keys[1], "engine9.3=1"}};
  const KernelPlan after = Tuned(Attended("0.0"), "sm_90", decisions);
  EXPECT_EQ(after.tuned.at(keys[0]), "engine8.3=1");
  for (const LibraryCall* call : CallsOf(after)) {
    EXPECT_EQ(AlgorithmOf(*call),
              call->name == "attention" ? "engine8.3=1" : "engine9.3=1");
  }
  EXPECT_EQ(CallsOf(after).size(), 2u);
  // Where cuDNN is not compared there is no call to decide about.
  EXPECT_THAT(AttentionKeys(Tuned(Attended("0.0"), "sm_80", decisions)),
              IsEmpty());
}

TEST(ChooseAlgorithm, AttentionWithDropoutHasNoKey) {
  const KernelPlan plan = Tuned(Attended("0.1"), "sm_90", {});
  EXPECT_EQ(CallsOf(plan).size(), 2u);
  EXPECT_THAT(AttentionKeys(plan), IsEmpty());
}

// Engines of one name may add blocks up in any order.
TEST(ChooseAlgorithm, DeterministicModeLeavesTheGradientOfAttentionAlone) {
  PassEnv env{*TargetFromName("sm_90"), {}};
  for (const auto& key : AttentionKeys(Tuned(Attended("0.0"), "sm_90", {})))
    env.tuning[key] = "engine8.3=1";
  env.options.artifact.deterministic = true;
  const KernelPlan plan = PlanWith(Attended("0.0"), env);
  EXPECT_THAT(AttentionKeys(plan), ElementsAre(StartsWith("attention/")));
  for (const LibraryCall* call : CallsOf(plan)) {
    EXPECT_EQ(AlgorithmOf(*call),
              call->name == "attention" ? "engine8.3=1" : "");
  }
}

TEST(ChooseAlgorithm, OtherSizesChipsAndStridesAreOtherKeys) {
  const std::string key = KeyOf(PlanOf(Product("256"), "sm_90"));
  EXPECT_NE(KeyOf(PlanOf(Product("257"), "sm_90")), key);
  EXPECT_NE(KeyOf(PlanOf(Product("256", "256"), "sm_90")), key);
  EXPECT_NE(KeyOf(PlanOf(Product("256"), "sm_80")), key);
  const std::string transposed =
      "graph @g()(%a: bf16[256, 128], %b: bf16[512, 128]) -> (%y) {\n"
      "  %t = t(%b)\n  %y = mm(%a, %t)\n}\n";
  EXPECT_THAT(KeyOf(PlanOf(transposed, "sm_90")),
              StartsWith("mm/bf16/256x512x128/"));
  EXPECT_NE(KeyOf(PlanOf(transposed, "sm_90")), key);
}

TEST(ChooseAlgorithm, ASymbolCountsByItsClass) {
  const auto key = [](int hint) {
    return KeyOf(PlanOf(
        absl::StrCat("graph @g(s0 in [2, 65536] = ", hint,
                     ")(%a: bf16[s0, 128], %b: bf16[128, 512]) -> (%y) {\n"
                     "  %y = mm(%a, %b)\n}\n"),
        "sm_90"));
  };
  EXPECT_THAT(key(200), StartsWith("mm/bf16/2^8x512x128/"));
  EXPECT_EQ(key(200), key(256));
  EXPECT_NE(key(200), key(257));
}

TEST(ChooseAlgorithm, OnTheCpuLibrariesLeaveNoChoice) {
  EXPECT_EQ(KeyOf(PlanOf(Product("256"), "x86-64-v3")), "");
}

}  // namespace
}  // namespace kiln

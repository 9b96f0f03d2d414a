// A library or kernels of ours, as tuning decisions say.

#include "compiler/schedule/compute_ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph_text.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_pipeline.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

PassEnv Env(absl::string_view target = "sm_90",
            const TuningTable& tuning = {}) {
  PassEnv env{*TargetFromName(target), {}};
  env.tuning = tuning;
  return env;
}

std::string KeyOf(const KernelPlan& plan, absl::string_view family) {
  for (const auto& [key, decision] : plan.tuned)
    if (absl::StartsWith(key, family)) return key;
  return "";
}

template <typename Step>
int CountOf(const KernelPlan& plan) {
  return static_cast<int>(std::count_if(
      plan.steps.begin(), plan.steps.end(), [](const PlannedStep& step) {
        return std::holds_alternative<Step>(step);
      }));
}

// By rule a library's and, a row by a matrix, loops of ours.
constexpr absl::string_view kFew = R"(
    graph @few() on cuda(%a: bf16[16, 64] align 16, %b: bf16[64, 32] align 16,
                         %c: bf16[32] align 16) -> (%y) {
      %p = addmm(%c, %a, %b)
      %y = relu(%p)
    })";
constexpr absl::string_view kRow = R"(
    graph @row() on cuda(%a: bf16[1, 512] align 16,
                         %b: bf16[512, 256] align 16) -> (%y) {
      %p = mm(%a, %b)
      %y = relu(%p)
    })";

void ExpectMeans(absl::string_view text, const KernelPlan& plan) {
  EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus()) << ToText(plan);
  const auto graph = ParseGraph(text);
  const std::vector<RefValue> inputs = RandomInputs(*graph);
  const auto due = RunReference(*graph, inputs);
  ASSERT_TRUE(due.ok()) << due.status();
  const auto got = RunPlan(plan, graph->constants, inputs);
  ASSERT_TRUE(got.ok()) << got.status() << ToText(plan);
  ExpectClose(got->outputs[0], due->outputs[0], ToleranceOf(*graph),
              ToText(plan));
}

TEST(ComputeWays, AProductIsALibrarysOrOurs) {
  for (const absl::string_view text : {kFew, kRow}) {
    SCOPED_TRACE(text);
    const KernelPlan before = PlanWith(text, Env());
    const std::string key = KeyOf(before, "way_product/");
    EXPECT_THAT(key, StartsWith(text == kFew ? "way_product/bf16/16x32x64/"
                                             : "way_product/bf16/1x256x512/"));
    EXPECT_THAT(key, EndsWith("/sm_90"));
    EXPECT_EQ(before.tuned.at(key), "");
    const KernelPlan loops = PlanWith(text, Env("sm_90", {{key, "loops"}}));
    EXPECT_EQ(CountOf<LibraryCall>(loops), 0);
    EXPECT_EQ(NumKernels(loops), 1);  // with what follows it
    EXPECT_THAT(loops.contractions, Contains(EndsWith("; tuned: loops")));
    EXPECT_THAT(loops.contractions, Contains(HasSubstr(": own loops")));
    const KernelPlan library = PlanWith(text, Env("sm_90", {{key, "library"}}));
    EXPECT_EQ(CountOf<LibraryCall>(library), 1);
    EXPECT_EQ(library.tuned.at(key), "library");
    EXPECT_THAT(library.contractions, Contains(EndsWith("; tuned: library")));
    EXPECT_THAT(library.contractions, Contains(HasSubstr(": cuBLASLt")));
    // Without a decision it is one of them.
    EXPECT_EQ(ToText(before), ToText(text == kFew ? library : loops));
    ExpectMeans(text, loops);
    ExpectMeans(text, library);
  }
}

// By rule tensor cores', in loops of ours.
constexpr absl::string_view kShortSums = R"(
    graph @short() on cuda(%a: bf16[8192, 32] align 16,
                           %b: bf16[32, 4096] align 16) -> (%y) {
      %p = mm(%a, %b)
      %y = relu(%p)
    })";

TEST(ComputeWays, ShortSumsAreOursOrALibrarys) {
  const KernelPlan before = PlanWith(kShortSums, Env());
  const std::string key = KeyOf(before, "way_product/bf16/8192x4096x32/");
  ASSERT_NE(key, "");
  EXPECT_EQ(VerifyKernelPlan(before), absl::OkStatus());
  EXPECT_EQ(CountOf<LibraryCall>(before), 0);
  ASSERT_EQ(NumKernels(before), 1);
  EXPECT_TRUE(std::holds_alternative<CudaProducts>(
      std::get<PlannedKernel>(before.steps[0]).variant))
      << ToText(before);
  const KernelPlan library =
      PlanWith(kShortSums, Env("sm_90", {{key, "library"}}));
  EXPECT_EQ(CountOf<LibraryCall>(library), 1);
  EXPECT_THAT(library.contractions, Contains(EndsWith("; tuned: library")));
  const KernelPlan loops = PlanWith(kShortSums, Env("sm_90", {{key, "loops"}}));
  EXPECT_EQ(ToText(loops), ToText(before));
}

// As `kiln-opt --explain-tiling` prints them, for --tune.
TEST(ComputeWays, KeysAreTold) {
  const std::string key = KeyOf(PlanWith(kFew, Env()), "way_product/");
  const auto told = [](const PassEnv& env) {
    const auto text = ExplainVariants(NestsWith(kFew, env), env);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  };
  EXPECT_THAT(told(Env()),
              StartsWith(absl::StrCat("step\n  key ", key, "\ncall ")));
  EXPECT_THAT(told(Env("sm_90", {{key, "loops"}})),
              StartsWith(absl::StrCat("step\n  key ", key,
                                      "\n  decided: loops\nkernel ")));
}

TEST(ComputeWays, WhatCannotBeTakenIsIgnored) {
  const KernelPlan before = PlanWith(kFew, Env());
  const std::string key = KeyOf(before, "way_product/");
  for (const char* words : {"flash", "", "cutlass", "id66.tile20"}) {
    const KernelPlan plan = PlanWith(kFew, Env("sm_90", {{key, words}}));
    EXPECT_EQ(ToText(plan), ToText(before)) << words;
    EXPECT_EQ(plan.tuned.at(key), words);
    EXPECT_THAT(
        plan.contractions,
        Contains(EndsWith(absl::StrCat(
            "; ignored: nobody who may compute it is \"", words, "\""))));
  }
  // Another chip has another key.
  const KernelPlan there = PlanWith(kFew, Env("sm_80"));
  EXPECT_NE(KeyOf(there, "way_product/"), key);
  EXPECT_EQ(ToText(PlanWith(kFew, Env("sm_80", {{key, "loops"}}))),
            ToText(there));
}

TEST(ComputeWays, WhereOneIsFarBehindThereIsNoChoice) {
  const auto key_of = [](absl::string_view form, absl::string_view target) {
    return KeyOf(PlanWith(absl::StrCat("graph @g()(", form,
                                       ") -> (%y) {\n  %y = mm(%a, %b)\n}"),
                          Env(target)),
                 "way_");
  };
  constexpr absl::string_view kSmall = "%a: f32[64, 64], %b: f32[64, 64]";
  EXPECT_NE(key_of(kSmall, "sm_90"), "");
  EXPECT_EQ(key_of(kSmall, "x86-64-v3"), "");
  EXPECT_EQ(key_of("%a: f32[512, 512], %b: f32[512, 512]", "sm_90"), "");
  // Along one axis there is little.
  EXPECT_NE(key_of("%a: f32[8, 512], %b: f32[512, 4096]", "sm_90"), "");
  EXPECT_EQ(key_of("%a: f32[8, 65536], %b: f32[65536, 65536]", "sm_90"), "");
}

TEST(ComputeWays, AConvolutionOfAWindowForEachChannelIsALibrarysOrOurs) {
  const std::string text =
      "graph @g() on cuda(%i: bf16[4, 32, 14, 14] align 16, "
      "%w: bf16[32, 1, 3, 3] align 16) -> (%y) {\n"
      "  %y = convolution(%i, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], "
      "32)\n}\n";
  const KernelPlan before = PlanWith(text, Env());
  const std::string key = KeyOf(before, "way_convolution/");
  ASSERT_NE(key, "");
  const KernelPlan loops = PlanWith(text, Env("sm_90", {{key, "loops"}}));
  EXPECT_EQ(CountOf<LibraryCall>(loops), 0);
  const KernelPlan library = PlanWith(text, Env("sm_90", {{key, "library"}}));
  EXPECT_EQ(CountOf<LibraryCall>(library), 1);
  const std::string plain = ToText(before);
  EXPECT_TRUE(plain == ToText(loops) || plain == ToText(library)) << plain;
  ExpectMeans(text, loops);
  ExpectMeans(text, library);
}

// Forward and backward; `more`: what else the forward is given, and the backward.
std::string Attended(absl::string_view width, absl::string_view dropout) {
  const std::string size = absl::StrCat("[2, 4, 96, ", width, "] align 16");
  return absl::StrCat(
      "graph @g() on cuda(%q: bf16", size, ", %k: bf16", size, ", %g: bf16",
      size, ") -> (%o, %dq, %dk, %dv) {\n",
      "  %o, %l, %2, %3, %4, %5, %s, %f, %8 = "
      "_scaled_dot_product_cudnn_attention(%q, %k, %k, none, true, ",
      dropout,
      ", true)\n  %dq, %dk, %dv = "
      "_scaled_dot_product_cudnn_attention_backward(%g, %q, %k, %k, %o, %l, "
      "%s, %f, none, none, none, 96, 96, ",
      dropout, ", true)\n}\n");
}

TEST(ComputeWays, AttentionIsCudnnsOrOurs) {
  const std::string text = Attended("256", "0.0");
  const KernelPlan before = PlanWith(text, Env());
  EXPECT_EQ(CountOf<LibraryCall>(before), 2);
  std::vector<std::string> keys;
  for (const auto& [key, decision] : before.tuned)
    if (absl::StartsWith(key, "way_attention/bf16/2x4x96x96x256/"))
      keys.push_back(key);
  ASSERT_EQ(keys.size(), 2u) << ToText(before);  // forward and backward
  // Each by itself.
  int kernels = 0;
  for (const std::string& key : keys) {
    const KernelPlan one = PlanWith(text, Env("sm_90", {{key, "flash"}}));
    EXPECT_EQ(CountOf<LibraryCall>(one), 1);
    kernels += CountOf<FlashKernel>(one);
    EXPECT_THAT(one.contractions,
                Contains(testing::AllOf(HasSubstr("own flash"),
                                        EndsWith("; tuned: flash"))));
    EXPECT_EQ(ToText(PlanWith(text, Env("sm_90", {{key, "library"}}))),
              ToText(before));
    const KernelPlan ignored = PlanWith(text, Env("sm_90", {{key, "loops"}}));
    EXPECT_EQ(ToText(ignored), ToText(before));
    EXPECT_THAT(ignored.contractions, Contains(HasSubstr("; ignored: ")));
  }
  EXPECT_EQ(kernels, 3);
  const KernelPlan both =
      PlanWith(text, Env("sm_90", {{keys[0], "flash"}, {keys[1], "flash"}}));
  ExpectMeans(text, both);
}

TEST(ComputeWays, AttentionThatMustStayAsItIsHasNoKey) {
  const auto key_of = [](const std::string& text, const PassEnv& env) {
    return KeyOf(PlanWith(text, env), "way_attention/");
  };
  EXPECT_NE(key_of(Attended("64", "0.0"), Env()), "");
  EXPECT_EQ(key_of(Attended("64", "0.1"), Env()), "");
  EXPECT_EQ(key_of(Attended("64", "0.0"), Env("sm_80")), "");
  PassEnv own = Env();
  own.options.artifact.own_attention = true;
  EXPECT_EQ(key_of(Attended("64", "0.0"), own), "");
  const std::string biased =
      "graph @g() on cuda(%q: bf16[2, 4, 96, 64] align 16, "
      "%b: bf16[2, 4, 96, 96] align 16) -> (%o) {\n"
      "  %o, %l, %2, %3, %4, %5, %s, %f, %8 = "
      "_scaled_dot_product_cudnn_attention(%q, %q, %q, %b, true)\n}\n";
  EXPECT_EQ(key_of(biased, Env()), "");
}

}  // namespace
}  // namespace kiln

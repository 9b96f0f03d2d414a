#include "compiler/schedule/kernel_plan_text.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/kernel_variant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/compiler/schedule/plan_text_check.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoKernels[] = R"(plan @g(s0 in [2, 64] = 8) {
  in x : f32[4*s0] index 0 align 4
  tmp a : f32[s0] at 0 bytes 64
  tmp b : f32[s0] at 64 bytes 64
  out y : f32[4*s0]
  kernel sum cuda rows vector 4 lanes 64 rows 2 held 8 hold_costly 1 unroll 1 parts 1 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 0 once 0 branch 0 joined 0 {
    nest sum [i0 in s0, reduce i1 in 4] {
      t0 = load f32 x[4*i0 + i1]
      t1 = reduce f32 t0 by sum
      a[i0] = t1
      b[i0] = t1
    }
  }
  kernel add cuda tiles axis 0 edge 32 depth 32 vector 1 across 1 peel 0 whole 0 {
    nest add [i0 in s0, i1 in 4] {
      t0 = load f32 a[i0]
      t1 = load f32 b[i0]
      t2 = add f32 t0, t1
      y[4*i0 + i1] = t2
    }
  }
  fill y = 0
  mutates 0
  return view y f32 [s0, 4] strides [4, 1] offset 0
  return sym s0 + 1
  return none
  arena 128 bytes, peak live 128
}
)";

// The variant of its first kernel.
constexpr char kRows[] =
    "cuda rows vector 4 lanes 64 rows 2 held 8 hold_costly 1 unroll 1 parts 1 "
    "peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 0 "
    "once 0 branch 0 joined 0";

// kTwoKernels with one change.
std::string Changed(absl::string_view from, absl::string_view to) {
  EXPECT_THAT(std::string(kTwoKernels), HasSubstr(std::string(from)));
  return absl::StrReplaceAll(kTwoKernels, {{from, to}});
}

TEST(KernelPlanText, ReadsBackAllThatAPlanHolds) {
  ExpectReadsBack(kTwoKernels);
}

TEST(KernelPlanText, ReadsBackWhatTheSchedulerMakes) {
  for (const char* target : {"sm_90", "x86-64-v3"}) {
    ExpectReadsBack(ToText(PlanOf(R"(
      graph @g(N in [2, 64] = 6)(%x: f32[N, 8], %w: f32[8, 4], %b: f32[4],
                                 %i: i64[3], %m: f32[N])
          -> (%y, %s, %d, %c) {
        %mm = addmm(%b, %x, %w)
        %y = mul.Tensor(%mm, 0.1)
        %s = sum.dim_IntList(%y, [0])
        %e = embedding(%x, %i)
        %d = embedding_dense_backward(%e, %i, 5, -1, false)
        %c = cat([%x, %x], 1)
        %n = add.Scalar(%m, 1)
        mutate %m = %n
      })",
                                  target)));
  }
}

TEST(KernelPlanText, WithoutAPlaceABufferIsAsLongAsItsElements) {
  const auto plan = ParseKernelPlan(kTwoKernels);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->placements[0].in_arena);
  EXPECT_EQ(plan->placements[0].bytes, plan->buffers[0].sizes[0] * 4);
}

struct BadText {
  const char* from;
  const char* to;
  const char* message;
};

TEST(KernelPlanText, SaysWhereItFoundWhatAndWhatWasDue) {
  for (const BadText& bad : {
           BadText{"plan @g", "plane @g",
                   "line 1 column 1: found 'plane @g(s0 in [2, 64] = 8) {', "
                   "expected 'plan @'"},
           BadText{"sum cuda rows", "sum cuda row",
                   "line 6 column 14: found 'cuda row vector 4 lanes 64 row', "
                   "expected a variant"},
           BadText{"lanes 64", "lanes many",
                   "line 6 column 39: found 'many rows 2 held 8 hold_costly', "
                   "expected an integer"},
           BadText{"rows 2 held 8", "held 8",
                   "line 6 column 42: found 'held 8 hold_costly 1 unroll 1 ', "
                   "expected 'rows'"},
           BadText{"joined 0 {", "joined 0 workspace a q {",
                   "line 6 column 194: found 'q {', expected a buffer that is "
                   "declared above"},
           BadText{
               "load f32 a[i0]", "load f32 q[i0]",
               "line 16 column 21: found 'q[i0]', expected a buffer that is "
               "declared above"},
           BadText{"t2 = add", "t2 = plus", "expected an operation"},
           BadText{
               "fill y = 0", "fill y = 0 0",
               "line 22 column 14: found '0', expected the end of the line"},
           BadText{"return none", "return nothing",
                   "expected view, sym or none"},
           BadText{"peak live 128\n", "\n",
                   "line 27 column 13: found 'bytes, ', expected 'bytes, peak "
                   "live'"},
       }) {
    const auto plan = ParseKernelPlan(Changed(bad.from, bad.to));
    ASSERT_FALSE(plan.ok()) << bad.to;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(bad.message));
  }
  EXPECT_FALSE(ParseKernelPlan("plan @g() {\n").ok());
  EXPECT_FALSE(ParseKernelPlan("").ok());
}

TEST(KernelPlanVerifier, P1BuffersAreFlat) {
  ExpectBreaks("K1", Changed("out y : f32[4*s0]", "out y : f32[s0, 4]"));
}

TEST(KernelPlanVerifier, P2ATemporaryLiesInTheArena) {
  ExpectBreaks("K2", Changed(" at 64 bytes 64", ""));
  ExpectBreaks("K2", Changed("at 64 bytes", "at 128 bytes"));
}

TEST(KernelPlanVerifier, P3WhatLivesAtOnceDoesNotOverlap) {
  ExpectBreaks("K3", Changed("at 64 bytes", "at 32 bytes"));
}

TEST(KernelPlanVerifier, P4LabelsAreUnique) {
  ExpectBreaks("K4", Changed("kernel add", "kernel sum"));
}

TEST(KernelPlanVerifier, P5VariantsHaveNumbersInRange) {
  for (const auto& [from, to] :
       {std::pair("rows vector 4", "rows vector 3"),
        std::pair("lanes 64", "lanes 48"), std::pair("lanes 64", "lanes 0"),
        std::pair("lanes 64 rows 2", "lanes 1024 rows 2"),
        std::pair("held 8", "held -1"), std::pair("unroll 1", "unroll 0"),
        std::pair("parts 1", "parts 0"), std::pair("peel 0", "peel -1"),
        std::pair("axis 0", "axis 1"), std::pair("axis 0", "axis -1"),
        std::pair("edge 32", "edge 0"),
        std::pair("cuda tiles axis 0 edge 32 depth 32 vector 1 across 1 peel 0 "
                  "whole 0",
                  "cpu tiles axis 1 rows 64 columns 64 grain 16384")}) {
    ExpectBreaks("K5", Changed(from, to));
  }
  // A row of twice as many groups as there are places.
  ExpectBreaks("K5", Changed("reduce i1 in 4]", "reduce i1 in 4096]"));
  // All that a block may have, and none kept in registers.
  ExpectReadsBack(absl::StrReplaceAll(
      kTwoKernels, {{"lanes 64 rows 2 held 8", "lanes 512 rows 2 held 0"},
                    {"floats 0", "floats 512"}}));
}

TEST(KernelPlanVerifier, P6ReductionsAndPointsAreMappedAsSuch) {
  constexpr char kTiles[] =
      "cuda tiles axis 0 edge 32 depth 32 vector 1 across 1 peel 0 whole 0";
  for (const char* points :
       {"cuda points vector 4 unroll 1 threads 256 peel 0 blocks 512 alone 0 "
        "whole 0",
        "cuda tiles axis 0 edge 32 depth 32 vector 1 across 1 peel 0 whole 0",
        "cpu points block 4096 interior 0 grain 16384",
        "cpu tiles axis 0 rows 64 columns 64 grain 16384"}) {
    ExpectBreaks("K6", Changed(kRows, points));
    ExpectReadsBack(Changed(kTiles, points));
  }
  for (const char* reduction :
       {"cuda rows vector 4 lanes 64 rows 2 held 8 hold_costly 0 unroll 1 "
        "parts 1 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 "
        "whole 0 floats 0 once 0 branch 0 joined 0",
        "cuda columns vector 1 across 32 down 8 unroll 1 parts 1 peel 0 whole "
        "0 floats 512",
        "cuda serial threads 256 blocks 512",
        "cpu rows accumulators 2 block 4096 grain 16384",
        "cpu columns strip 4 block 256 unroll 4 grain 16384"}) {
    ExpectBreaks("K6", Changed(kTiles, reduction));
    ExpectReadsBack(Changed(kRows, reduction));
  }
  // Before choose_variants.
  ExpectReadsBack(Changed(kRows, "unmapped"));
  ExpectReadsBack(Changed(kTiles, "unmapped"));
}

TEST(KernelPlanVerifier, NestsKeepTheRulesOfLoops) {
  ExpectBreaks("L4", Changed("t2 = add f32 t0, t1", "t2 = add f16 t0, t1"));
}

constexpr char kCombined[] = R"(plan @g() {
  in x : f32[8] index 0
  in y : f32[3] index 1
  kernel kiln_for_fused_exp_0 {
    part cuda points vector 4 unroll 1 threads 256 peel 0 blocks 0 alone 0 whole 0 {
      nest exp [i0 in 8] {
        t0 = load f32 x[i0]
        t1 = exp f32 t0
        x[i0] = t1
      }
    }
    part cuda points vector 4 unroll 1 threads 256 peel 0 blocks 0 alone 0 whole 0 {
      nest exp [i0 in 3] {
        t0 = load f32 y[i0]
        t1 = exp f32 t0
        y[i0] = t1
      }
    }
  }
  kernel kiln_poi_fused_neg_1 cuda points vector 4 unroll 1 threads 256 peel 0 blocks 512 alone 0 whole 0 {
    nest neg [i0 in 8] {
      t0 = load f32 x[i0]
      t1 = neg f32 t0
      x[i0] = t1
    }
  }
  mutates 0
  mutates 1
  arena 0 bytes, peak live 0
}
)";

TEST(KernelPlanText, AKernelOfSeveralPartsReadsBack) {
  ExpectReadsBack(kCombined);
}

TEST(KernelPlanVerifier, PartsThatMeetAreNotedByTheirRule) {
  for (const auto& [from, to] :
       {std::pair("load f32 y[i0]", "load f32 x[i0]"),
        std::pair("        y[i0] = t1", "        x[i0] = t1"),
        std::pair("threads 256 peel 0 blocks 0 alone 0 whole 0 {\n      nest "
                  "exp [i0 in 3]",
                  "threads 128 peel 0 blocks 0 alone 0 whole 0 {\n      nest "
                  "exp [i0 in 3]"),
        std::pair(
            "cuda points vector 4 unroll 1 threads 256 peel 0 blocks 0 alone 0 "
            "whole 0 {\n      "
            "nest exp [i0 in 3]",
            "cpu points block 4096 interior 0 grain 16384 {\n      nest "
            "exp [i0 in 3]")}) {
    ASSERT_THAT(kCombined, HasSubstr(from));
    const auto plan =
        ParseKernelPlan(absl::StrReplaceAll(kCombined, {{from, to}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(std::string(VerifyKernelPlan(*plan).message()),
                HasSubstr("K7"));
  }
}

constexpr char kSharedRows[] =
    "cuda rows vector 4 lanes 256 rows 1 held 0 hold_costly 0 unroll 4 parts 8 "
    "peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 512 "
    "once 0 branch 0 joined 0";
constexpr char kShared[] = R"(plan @g() {
  in x : f32[524288] index 0
  out y : f32[2]
  counters counters : i32[1]
  tmp partials : u8[64] at 0 bytes 64
  kernel sum cuda rows vector 4 lanes 256 rows 1 held 0 hold_costly 0 unroll 4 parts 8 peel 0 stages 0 stretch 0 cluster 1 blocks 0 alone 0 whole 0 floats 512 once 0 branch 0 joined 0 workspace partials counters {
    nest sum [i0 in 2, reduce i1 in 262144] {
      t0 = load f32 x[262144*i0 + i1]
      t1 = reduce f32 t0 by sum
      y[i0] = t1
    }
  }
  return view y f32 [2] strides [1] offset 0
  arena 64 bytes, peak live 64
}
)";

TEST(KernelPlanText, AKernelWithAWorkspaceReadsBack) {
  ExpectReadsBack(kShared);
  const auto plan = ParseKernelPlan(kShared);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto& kernel = std::get<PlannedKernel>(plan->steps[0]);
  EXPECT_EQ(PartsOf(kernel.variant), 8);
  EXPECT_EQ(kernel.workspace, (Workspace{.partials = 3, .counters = 2}));
  EXPECT_EQ(plan->buffers[2].kind, BufferKind::kCounters);
  EXPECT_EQ(plan->buffers[3].kind, BufferKind::kTemporary);
}

TEST(KernelPlanVerifier, P8AWorkspaceGoesWithSharedOuterPoints) {
  const auto changed = [](absl::string_view from, absl::string_view to) {
    EXPECT_THAT(kShared, HasSubstr(std::string(from)));
    return absl::StrReplaceAll(kShared, {{from, to}});
  };
  ExpectBreaks("K8", changed(" workspace partials counters", ""));
  ExpectBreaks("K8", changed("parts 8", "parts 1"));
  ExpectBreaks("K8",
               changed(kSharedRows, "cuda serial threads 256 blocks 512"));
  ExpectBreaks("K8", Changed("parts 1", "parts 2"));
  ExpectBreaks("K9", Changed("stretch 0", "stretch 5"));
  ExpectBreaks("K10",
               Changed("cluster 1", "cluster 2"));  // of two rows a block
  ExpectBreaks("K11",
               changed(kSharedRows,
                       "cuda scans vector 4 lanes 256 rows 2 peel 0 unroll 1 "
                       "parts 8 blocks 0 whole 0"));
  ExpectReadsBack(changed(kSharedRows,
                          "cuda columns vector 1 across 4 down 32 unroll 1 "
                          "parts 8 peel 0 whole 0 floats 512"));
}

TEST(KernelPlanVerifier, NumbersThatFollowFromOthersFitThem) {
  const auto shared = [](absl::string_view floats) {
    return absl::StrReplaceAll(kShared, {{"floats 512", floats}});
  };
  // A step of four groups adds 16 floats.
  for (const char* whole_steps : {"floats 16", "floats 48", "floats 1024"})
    ExpectReadsBack(shared(whole_steps));
  for (const char* parts : {"floats 0", "floats 8", "floats 500"})
    ExpectBreaks("K17", shared(parts));
  // A held row is one block, nothing of it is staged, and it has no sums to join.
  for (const auto& [from, to] :
       {std::pair("floats 0", "floats 512"), std::pair("once 0", "once 1"),
        std::pair("branch 0", "branch 2"), std::pair("joined 0", "joined 1")}) {
    ExpectBreaks("K17", Changed(from, to));
  }
  ExpectReadsBack(Changed("branch 0", "branch 1"));
  const auto staged = [](absl::string_view once) {
    return absl::StrReplaceAll(kTwoKernels,
                               {{"stages 0", "stages 1"}, {"once 0", once}});
  };
  ExpectReadsBack(staged("once 0"));
  ExpectReadsBack(staged("once 1"));
  ExpectBreaks("K17", staged("once 2"));
}

TEST(KernelPlanVerifier, RowsOfPeeledColumnsAlignInTurn) {
  const auto with = [](absl::string_view variant) {
    return Changed(kRows, variant);
  };
  constexpr absl::string_view kRest =
      " unroll 1 parts 1 peel 1 whole 40 floats 512";
  ExpectReadsBack(
      with(absl::StrCat("cuda columns vector 4 across 8 down 16", kRest)));
  for (const absl::string_view broken :
       {"cuda columns vector 1 across 8 down 16",
        "cuda columns vector 8 across 8 down 4"}) {
    ExpectBreaks("K14", with(absl::StrCat(broken, kRest)));
  }
  ExpectBreaks("K5", with("cuda columns vector 4 across 128 down 8 unroll 1 "
                          "parts 1 peel 1 whole 40 floats 512"));
}

TEST(KernelPlanVerifier, ATallyHasAThreadForEachValue) {
  const auto with = [](absl::string_view variant) {
    return absl::StrReplaceAll(
        kShared, {{"t1 = reduce f32 t0 by sum", "t1 = tally i32 t0 number 64"},
                  {kSharedRows, variant}});
  };
  ExpectBreaks("K12", with("cuda tallies threads 32 run 4 values 64 alone 0"));
  ExpectBreaks("K12",
               with("cuda tallies threads 256 run 4 values 256 alone 0"));
}

TEST(KernelPlanVerifier, AWorkspaceLiesInTheArenaWhileItsKernelRuns) {
  ExpectBreaks("K2", absl::StrReplaceAll(kShared, {{" at 0 bytes 64", ""}}));
  ExpectBreaks(
      "K3", absl::StrReplaceAll(kShared, {{"  out y : f32[2]\n",
                                           "  tmp y : f32[2] at 32 bytes 64\n"},
                                          {"arena 64", "arena 128"}}));
}

// Every number is another one than its default and than its neighbours.
TEST(KernelPlanText, EachVariantReadsBackByNameWithAllItsNumbers) {
  EXPECT_EQ(VariantNames().size(), std::variant_size_v<KernelVariant>);
  for (const absl::string_view name : VariantNames()) {
    KernelVariant variant = VariantFromName(name);
    EXPECT_EQ(VariantName(variant), name);
    std::string text(name);
    int number = 101;
    for (const VariantField& field : FieldsOf(variant)) {
      *field.value = number++;
      absl::StrAppend(&text, " ", field.name, " ", *field.value);
    }
    EXPECT_EQ(ToText(variant), text);
    const std::string plan_text = absl::StrCat(
        "plan @g() {\n  in x : f32[8] index 0\n  kernel k ", text,
        " {\n    nest exp [i0 in 8] {\n      t0 = load f32 x[i0]\n"
        "      x[i0] = t0\n    }\n  }\n  arena 0 bytes, peak live 0\n}\n");
    const auto plan = ParseKernelPlan(plan_text);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(ToText(*plan), plan_text);
    EXPECT_TRUE(std::get<PlannedKernel>(plan->steps[0]).variant == variant)
        << plan_text;
  }
}

}  // namespace
}  // namespace kiln

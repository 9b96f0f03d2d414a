#include "compiler/schedule/kernel_plan_text.h"

#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

constexpr char kTwoKernels[] = R"(plan @g(s0 in [2, 64] hint 8) {
  in x : f32[4*s0] index 0 align 4
  tmp a : f32[s0] at 0 bytes 64
  tmp b : f32[s0] at 64 bytes 64
  out y : f32[4*s0]
  kernel sum row vector 4 threads 128 rows 2 each 8 persistent accumulators 2 {
    nest sum [i0 in s0, reduce i1 in 4] {
      t0 = load f32 x[4*i0 + i1]
      t1 = reduce f32 t0 by sum
      a[i0] = t1
      b[i0] = t1
    }
  }
  kernel add tile2d vector 1 threads 256 rows 1 each 4 tile i0 {
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

// kTwoKernels with one change.
std::string Changed(absl::string_view from, absl::string_view to) {
  EXPECT_THAT(std::string(kTwoKernels), HasSubstr(std::string(from)));
  return absl::StrReplaceAll(kTwoKernels, {{from, to}});
}

void ExpectReadsBack(const std::string& text) {
  const auto plan = ParseKernelPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status() << "\n" << text;
  EXPECT_EQ(ToText(*plan), text);
  EXPECT_EQ(VerifyKernelPlan(*plan), absl::OkStatus());
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
                   "line 1 column 1: found 'plane @g(s0 in [2, 64] hint 8)', "
                   "due 'plan @'"},
           BadText{"sum row vector", "sum rows vector",
                   "line 6 column 14: found 'rows vector 4 threads 128 rows', "
                   "due a mapping"},
           BadText{"threads 128", "threads many",
                   "line 6 column 35: found 'many rows 2 each 8 persistent ', "
                   "due an integer"},
           BadText{"load f32 a[i0]", "load f32 q[i0]",
                   "line 16 column 21: found 'q[i0]', due a buffer that is "
                   "declared above"},
           BadText{"t2 = add", "t2 = plus", "due an operation"},
           BadText{"fill y = 0", "fill y = 0 0",
                   "line 22 column 14: found '0', due the end of the line"},
           BadText{"return none", "return nothing", "due view, sym or none"},
           BadText{
               "peak live 128\n", "\n",
               "line 27 column 13: found 'bytes, ', due 'bytes, peak live'"},
       }) {
    const auto plan = ParseKernelPlan(Changed(bad.from, bad.to));
    ASSERT_FALSE(plan.ok()) << bad.to;
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(bad.message));
  }
  EXPECT_FALSE(ParseKernelPlan("plan @g() {\n").ok());
  EXPECT_FALSE(ParseKernelPlan("").ok());
}

void ExpectBreaks(absl::string_view rule, const std::string& text) {
  const auto plan = ParseKernelPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(std::string(VerifyKernelPlan(*plan).message()),
              testing::StartsWith(std::string(rule) + " at "))
      << text;
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

TEST(KernelPlanVerifier, P5TilingsHaveNumbersInRange) {
  ExpectBreaks("K5", Changed("row vector 4", "row vector 3"));
  ExpectBreaks("K5", Changed("tile i0", "tile i1"));
}

TEST(KernelPlanVerifier, P6ReductionsAndPointsAreMappedAsSuch) {
  ExpectBreaks("K6", Changed("sum row", "sum pointwise"));
  ExpectBreaks("K6", Changed("tile2d", "column"));
}

TEST(KernelPlanVerifier, NestsKeepTheRulesOfLoops) {
  ExpectBreaks("L4", Changed("t2 = add f32 t0, t1", "t2 = add f16 t0, t1"));
}

constexpr char kCombined[] = R"(plan @g() {
  in x : f32[8] index 0
  in y : f32[3] index 1
  kernel kiln_for_fused_exp_0 {
    part pointwise vector 4 threads 256 rows 1 each 4 {
      nest exp [i0 in 8] {
        t0 = load f32 x[i0]
        t1 = exp f32 t0
        x[i0] = t1
      }
    }
    part pointwise vector 4 threads 256 rows 1 each 4 {
      nest exp [i0 in 3] {
        t0 = load f32 y[i0]
        t1 = exp f32 t0
        y[i0] = t1
      }
    }
  }
  kernel kiln_poi_fused_neg_1 pointwise vector 4 threads 256 rows 1 each 4 {
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
        std::pair("threads 256 rows 1 each 4 {\n      nest exp [i0 in 3]",
                  "threads 128 rows 1 each 4 {\n      nest exp [i0 in 3]")}) {
    const auto plan =
        ParseKernelPlan(absl::StrReplaceAll(kCombined, {{from, to}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_THAT(std::string(VerifyKernelPlan(*plan).message()),
                HasSubstr("K7"));
  }
}

}  // namespace
}  // namespace kiln

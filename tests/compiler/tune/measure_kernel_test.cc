#include "compiler/tune/measure_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/schedule/plan_buffers.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/compiler/tune/echo_toolchain.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kRowSums[] =
    "graph @rows()(%x: f32[4, 1024]) -> (%y) {\n"
    "  %y = sum.dim_IntList(%x, [1], false)\n}\n";

// Gives the times it was told, then 1; keeps what was launched.
class ToldStopwatch final : public Stopwatch {
 public:
  explicit ToldStopwatch(std::vector<double> seconds = {})
      : seconds_(std::move(seconds)) {}
  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    EXPECT_GT(repeats, 0);
    EXPECT_TRUE(absl::StrContains(kernel.image, kernel.symbol));
    launched.push_back(kernel);
    const size_t next = launched.size() - 1;
    return next < seconds_.size() ? seconds_[next] : 1.0;
  }

  std::vector<TimedKernel> launched;

 private:
  const std::vector<double> seconds_;
};

// What is measured of a graph's first kernel.
struct Subject {
  Subject(const std::string& graph, absl::string_view target)
      : env{*TargetFromName(target), {}}, plan(NestsWith(graph, env)) {
    const auto space =
        ConfigsOf(std::get<PlannedKernel>(plan.steps.at(0)), plan, env);
    EXPECT_TRUE(space.ok()) << space.status();
    if (space.ok()) key = space->Key();
  }
  absl::StatusOr<Measurement> Measure(Stopwatch& stopwatch,
                                      std::vector<std::string> choices = {}) {
    EchoToolchain toolchain;
    return MeasureKernel(plan, env, key, {.choices = std::move(choices)},
                         toolchain, stopwatch);
  }

  PassEnv env;
  KernelPlan plan;
  std::string key;
};

TEST(MeasureKernel, TheFastestWins) {
  Subject subject(kRowSums, "x86-64-v3");
  ToldStopwatch stopwatch({3, 2, 1, 4});
  const auto measured = subject.Measure(stopwatch);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->key, subject.key);
  ASSERT_GE(measured->choices.size(), 3u);
  EXPECT_EQ(measured->choices[0],
            "cpu rows accumulators 2 block 4096 grain 16384");
  EXPECT_EQ(measured->choice, measured->choices[2]);
  EXPECT_EQ(measured->seconds.size(), measured->choices.size());
  // The sums and what is summed.
  EXPECT_THAT(stopwatch.launched[0].buffer_bytes, ElementsAre(16384, 16));
}

TEST(MeasureKernel, ANearTieGoesToTheFirst) {
  Subject subject(kRowSums, "x86-64-v3");
  ToldStopwatch stopwatch({1.01, 1});
  const auto measured = subject.Measure(
      stopwatch, {"cpu rows accumulators 4 block 4096 grain 16384",
                  "cpu columns strip 4 block 256 unroll 4 grain 16384"});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->choice, "cpu rows accumulators 4 block 4096 grain 16384");
  EXPECT_THAT(
      measured->choices,
      ElementsAre("cpu rows accumulators 4 block 4096 grain 16384",
                  "cpu columns strip 4 block 256 unroll 4 grain 16384"));
}

TEST(MeasureKernel, WhatIsNotThereIsNamed) {
  Subject subject(kRowSums, "x86-64-v3");
  ToldStopwatch stopwatch;
  const auto choice =
      subject.Measure(stopwatch, {"cuda serial threads 64 blocks 2048"});
  EXPECT_EQ(ReasonOf(choice.status()), ErrorReason::kBadOption);
  EXPECT_THAT(choice.status().message(),
              HasSubstr("cuda serial threads 64 blocks 2048"));
  for (const char* key : {"", "reduce/f32/2^2x2^10/other/x86-64-v3"}) {
    subject.key = key;
    const auto measured = subject.Measure(stopwatch);
    EXPECT_EQ(ReasonOf(measured.status()), ErrorReason::kBadOption);
    EXPECT_THAT(measured.status().message(), HasSubstr(key));
  }
  EXPECT_TRUE(stopwatch.launched.empty());
}

class NoDevice final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel&, int) override {
    return MakeError(ErrorReason::kNoDevice, "no such device");
  }
};

TEST(MeasureKernel, AFailureNamesTheKeyAndTheConfiguration) {
  Subject subject(kRowSums, "sm_90");
  NoDevice none;
  const auto measured = subject.Measure(none);
  EXPECT_EQ(ReasonOf(measured.status()), ErrorReason::kNoDevice);
  EXPECT_THAT(measured.status().message(), HasSubstr(subject.key));
  EXPECT_THAT(measured.status().message(), HasSubstr("cuda rows"));
}

TEST(MeasureKernel, EveryFamilyIsLaunchedAsItsPlanWouldBe) {
  for (const char* graph :
       {"graph @points()(%x: bf16[1000, 1000]) -> (%y) {\n"
        "  %y = relu(%x)\n}\n",
        "graph @tiles()(%x: f32[1024, 512], %w: f32[512, 1024]) -> (%y) {\n"
        "  %t = permute(%x, [1, 0])\n  %y = add.Tensor(%w, %t)\n}\n",
        "graph @softmax()(%x: f32[512, 5000]) -> (%y) {\n"
        "  %y = _softmax(%x, 1, false)\n}\n",
        "graph @long()(%x: f32[4, 1000000]) -> (%y) {\n"
        "  %y = sum.dim_IntList(%x, [1], false)\n}\n",
        "graph @columns()(%x: f32[4096, 1000]) -> (%y) {\n"
        "  %y = sum.dim_IntList(%x, [0], false)\n}\n",
        "graph @scans(N in [2, 64] = 8)(%x: f32[N, 5000]) -> (%y) {\n"
        "  %y = cumsum(%x, 1)\n}\n",
        "graph @sorts()(%x: f32[64, 1000]) -> (%v, %i) {\n"
        "  %v, %i = sort(%x)\n}\n"}) {
    Subject subject(graph, "sm_90");
    ToldStopwatch stopwatch;
    const auto measured = subject.Measure(stopwatch);
    ASSERT_TRUE(measured.ok()) << measured.status() << graph;
    EXPECT_EQ(measured->choice, measured->choices[0]);
    for (size_t c = 0; c < stopwatch.launched.size(); ++c) {
      const TimedKernel& timed = stopwatch.launched[c];
      EXPECT_EQ(timed.target, "sm_90");
      EXPECT_LE(timed.block[0] * timed.block[1] * timed.block[2], 1024u);
      EXPECT_GE(timed.grid[0], 1);
      EXPECT_EQ(timed.order.size(),
                timed.buffer_bytes.size() + timed.scalars.size());
      // Partial results and counters are the kernel's own.
      const std::string choice = measured->choices[c] + " ";
      if (absl::StrContains(choice, " parts ") &&
          !absl::StrContains(choice, " parts 1 ")) {
        EXPECT_GE(timed.buffer_bytes.size(), 4u) << graph;
      }
    }
  }
}

TEST(PlanOfOne, IsAPlanOfItsOwn) {
  Subject subject(kRowSums, "sm_90");
  const auto& kernel = std::get<PlannedKernel>(subject.plan.steps[0]);
  const auto space = ConfigsOf(kernel, subject.plan, subject.env);
  ASSERT_TRUE(space.ok()) << space.status();
  for (const KernelConfig& config : space->configs()) {
    KernelPlan plan = PlanOfOne(subject.plan, kernel, config);
    PlanBuffers(plan, 1 << 20);
    EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus()) << ToText(config);
  }
}

}  // namespace
}  // namespace kiln

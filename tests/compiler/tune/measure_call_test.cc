#include "compiler/tune/measure_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/schedule/choose_algorithm.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "tests/compiler/schedule/plan_check.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kLinear[] =
    "graph @linear()(%b: bf16[512], %x: bf16[256, 128], %w: bf16[128, 512]) -> "
    "(%y) {\n  %y = addmm(%b, %x, %w)\n}\n";

// A library with three algorithms, of which the second is fast.
class ToldCalls final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel&, int) override {
    return absl::InternalError("no kernel is to be timed");
  }
  absl::StatusOr<double> MedianSeconds(const TimedCall& call, int) override {
    timed.push_back(call);
    const auto& name = std::get<std::string>(call.attributes.back().value);
    return name == "id2" ? 1.0 : 2.0;
  }
  absl::StatusOr<std::vector<std::string>> Algorithms(const TimedCall& call,
                                                      int most) override {
    EXPECT_EQ(call.target, "sm_90");
    EXPECT_GE(most, 3);
    return std::vector<std::string>{"id1", "id2", "id3"};
  }

  std::vector<TimedCall> timed;
};

struct Subject {
  explicit Subject(absl::string_view target = "sm_90")
      : env{*TargetFromName(target), {}}, plan(NestsWith(kLinear, env)) {
    for (const PlannedStep& step : plan.steps)
      if (const auto* found = std::get_if<LibraryCall>(&step)) call = found;
    if (call != nullptr)
      key = TuningKey(*call, plan.buffers, plan.shapes, env.target);
  }

  PassEnv env;
  KernelPlan plan;
  const LibraryCall* call = nullptr;
  std::string key;
};

TEST(MeasureCall, TheFastestAlgorithmWins) {
  const Subject subject;
  ASSERT_NE(subject.call, nullptr);
  ASSERT_EQ(CallOfKey(subject.plan, subject.env.target, subject.key),
            subject.call);
  ToldCalls calls;
  const auto measured = MeasureCall(*subject.call, subject.plan,
                                    subject.env.target, subject.key, {}, calls);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->key, subject.key);
  EXPECT_EQ(measured->choice, "id2");
  EXPECT_THAT(measured->choices, ElementsAre("id1", "id2", "id3"));
  EXPECT_THAT(measured->seconds, ElementsAre(2, 1, 2));
  const TimedCall& timed = calls.timed.at(0);
  EXPECT_EQ(timed.name, "addmm");
  ASSERT_EQ(timed.inputs.size(), 3u);
  EXPECT_THAT(timed.inputs[1].sizes, ElementsAre(256, 128));
  EXPECT_THAT(timed.outputs.at(0).sizes, ElementsAre(256, 512));
}

TEST(MeasureCall, AChoiceThatIsGivenIsTimedAlone) {
  const Subject subject;
  ToldCalls calls;
  const auto measured =
      MeasureCall(*subject.call, subject.plan, subject.env.target, subject.key,
                  {.choices = {"id3"}}, calls);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->choice, "id3");
  EXPECT_EQ(calls.timed.size(), 1u);
}

// A machine without the library, or a stopwatch that knows kernels alone.
class KernelsAlone final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel&, int) override {
    return 1.0;
  }
};

TEST(MeasureCall, AFailureNamesTheKey) {
  const Subject subject;
  KernelsAlone none;
  const auto measured = MeasureCall(*subject.call, subject.plan,
                                    subject.env.target, subject.key, {}, none);
  EXPECT_TRUE(absl::IsUnimplemented(measured.status()));
  EXPECT_THAT(measured.status().message(), HasSubstr(subject.key));
}

TEST(MeasureCall, AKeyOfNothingIsOfNoCall) {
  const Subject subject;
  EXPECT_EQ(CallOfKey(subject.plan, subject.env.target, ""), nullptr);
  EXPECT_EQ(CallOfKey(subject.plan, subject.env.target, "mm/other"), nullptr);
}

}  // namespace
}  // namespace kiln

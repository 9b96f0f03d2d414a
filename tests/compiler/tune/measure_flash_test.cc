#include "compiler/tune/measure_flash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "compiler/schedule/flash_configs.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/compiler/tune/echo_toolchain.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Forward and backward of 96 queries to 48 keys; on sm_80 they are kernels of ours.
constexpr char kAttended[] =
    "graph @g() on cuda(%q: bf16[2, 4, 96, 64] align 16, "
    "%k: bf16[2, 4, 48, 64] align 16, %g: bf16[2, 4, 96, 64] align 16) -> "
    "(%o, %dq, %dk, %dv) {\n"
    "  %o, %l, %2, %3, %4, %5, %s, %f, %8 = "
    "_scaled_dot_product_cudnn_attention(%q, %k, %k, none, true)\n"
    "  %dq, %dk, %dv = _scaled_dot_product_cudnn_attention_backward(%g, %q, "
    "%k, %k, %o, %l, %s, %f, none, none, none, 96, 48, 0.0, false)\n}\n";

// The third that it is given is fast.
class ThirdIsFast final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    EXPECT_GT(repeats, 0);
    EXPECT_TRUE(absl::StrContains(kernel.image, kernel.symbol));
    launched.push_back(kernel);
    return launched.size() == 3 ? 1.0 : 2.0;
  }
  std::vector<TimedKernel> launched;
};

struct Subject {
  Subject()
      : env{*TargetFromName("sm_80"), {}}, plan(NestsWith(kAttended, env)) {
    for (const PlannedStep& step : plan.steps)
      if (const auto* kernel = std::get_if<FlashKernel>(&step))
        kernels.push_back(kernel);
  }
  std::string KeyOf(size_t kernel) const {
    return TuningKey(*kernels[kernel], plan.shapes, env.target);
  }
  absl::StatusOr<Measurement> Measure(size_t kernel, Stopwatch& stopwatch,
                                      std::vector<std::string> choices = {}) {
    EchoToolchain toolchain;
    return MeasureFlash(*kernels[kernel], plan, env.target, KeyOf(kernel),
                        {.choices = std::move(choices)}, toolchain, stopwatch);
  }

  PassEnv env;
  KernelPlan plan;
  std::vector<const FlashKernel*> kernels;
};

TEST(MeasureFlash, TheFastestMappingOfEachPartWins) {
  Subject subject;
  ASSERT_THAT(subject.kernels, SizeIs(3));
  for (size_t k = 0; k < 3; ++k) {
    SCOPED_TRACE(PartName(subject.kernels[k]->part));
    ASSERT_EQ(FlashOfKey(subject.plan, subject.env.target, subject.KeyOf(k)),
              subject.kernels[k]);
    ThirdIsFast stopwatch;
    const auto measured = subject.Measure(k, stopwatch);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->key, subject.KeyOf(k));
    const auto configs = FlashConfigs(*subject.kernels[k], subject.env.target);
    ASSERT_EQ(measured->choices.size(), configs.size());
    ASSERT_GE(configs.size(), 3u);
    EXPECT_EQ(measured->choice, ToText(KernelVariant(configs[2])));
    for (size_t i = 0; i < configs.size(); ++i) {
      const TimedKernel& launch = stopwatch.launched[i];
      EXPECT_EQ(launch.block[0], configs[i].warps * 32);
      EXPECT_EQ(launch.shared_bytes,
                SharedBytesOf(*subject.kernels[k], configs[i]));
    }
  }
  // Of the gradient of keys alone: what it reads, what it writes, and sums of its own.
  ThirdIsFast stopwatch;
  ASSERT_TRUE(subject.Measure(2, stopwatch).ok());
  constexpr int64_t kQueries = 2 * 4 * 96 * 64 * 2, kKeys = kQueries / 2;
  EXPECT_THAT(stopwatch.launched[0].buffer_bytes,
              ElementsAre(kQueries, kKeys, kKeys, kQueries, kKeys, kKeys,
                          2 * 4 * 128 * 2 * 4));
}

TEST(MeasureFlash, AChoiceThatIsGivenIsTimedAlone) {
  Subject subject;
  const auto configs = FlashConfigs(*subject.kernels[0], subject.env.target);
  const std::string words = ToText(KernelVariant(configs[1]));
  ThirdIsFast stopwatch;
  const auto measured = subject.Measure(0, stopwatch, {words});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->choice, words);
  EXPECT_THAT(stopwatch.launched, SizeIs(1));
  const auto refused = subject.Measure(
      0, stopwatch, {"flash warps 3 tiles 1 columns 64 sides 1"});
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kBadOption);
  EXPECT_THAT(refused.status().message(), HasSubstr("flash_forward"));
}

TEST(MeasureFlash, AKeyOfNothingIsOfNoKernel) {
  Subject subject;
  for (const absl::string_view key : {"", "flash_forward/other"})
    EXPECT_EQ(FlashOfKey(subject.plan, subject.env.target, key), nullptr);
}

}  // namespace
}  // namespace kiln

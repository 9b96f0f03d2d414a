#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "compiler/tune/apply_tuning.h"
#include "compiler/tune/row_choice.h"
#include "compiler/tune/tune_row.h"
#include "compiler/tune/tuning_from_wire.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using testing::ElementsAre;

Target TargetOf(absl::string_view name) {
  const auto target = TargetFromName(name);
  EXPECT_TRUE(target.ok());
  return *target;
}

// Gives the times it was told, in order.
class ToldStopwatch final : public Stopwatch {
 public:
  explicit ToldStopwatch(std::vector<double> seconds)
      : seconds_(std::move(seconds)) {}
  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    EXPECT_EQ(kernel.buffer_bytes, (std::vector<int64_t>{4096, 4096}));
    EXPECT_TRUE(absl::StartsWith(kernel.symbol, "kiln_red_fused_tune_row_"));
    EXPECT_GT(repeats, 0);
    return seconds_[next_++];
  }

 private:
  std::vector<double> seconds_;
  size_t next_ = 0;
};

absl::StatusOr<RowAnswer> Tune(std::vector<double> seconds) {
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  ToldStopwatch stopwatch(std::move(seconds));
  return TuneRow({.rows = 4, .columns = 256}, TargetOf("x86-64-v3"), *toolchain,
                 stopwatch);
}

TEST(TuneRow, TheFastestWins) {
  const auto answer = Tune({3, 2, 1});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->key, "row_reduction/f32/2^2x2^8/x86-64-v3");
  EXPECT_EQ(answer->choice, "accumulators=4");
  EXPECT_EQ(answer->seconds, (std::vector<double>{3, 2, 1}));
}

TEST(TuneRow, ANearTieGoesToTheFirstOfTheList) {
  const auto answer = Tune({1.01, 2, 1});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->choice, "accumulators=2");
}

TEST(TuneRow, IntegersAreRefusedByName) {
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  ToldStopwatch stopwatch({});
  const auto answer = TuneRow({.rows = 1, .columns = 1, .dtype = DType::kInt64},
                              TargetOf("x86-64-v3"), *toolchain, stopwatch);
  EXPECT_EQ(ReasonOf(answer.status()), ErrorReason::kUnsupportedOp);
}

TEST(RowChoice, TextReadsBackAndNothingElseDoes) {
  for (absl::string_view name : {"sm_90", "x86-64-v3"})
    for (const RowChoice& choice : RowChoices(TargetOf(name)))
      EXPECT_EQ(RowChoiceFromText(ToText(choice)), choice);
  for (absl::string_view text :
       {"", "threads=0 rows=1", "rows=1 threads=32", "threads=32 rows=1 x=1",
        "threads=99999 rows=1"})
    EXPECT_EQ(RowChoiceFromText(text), std::nullopt) << text;
}

TEST(ApplyTuning, ADecisionChangesTheKernelsItIsForAndEveryLookUpIsNamed) {
  const Target target = TargetOf("sm_90");
  KernelPlan plan;
  plan.steps.push_back(RowKernel({.rows = 100, .columns = 1000},
                                 {.threads = 128, .rows = 1}, target,
                                 plan.buffers));
  const TunedChoice other = {"row_reduction/f32/2^7x2^11/sm_90",
                             "threads=64 rows=2"};
  const TunedChoice mine = {"row_reduction/f32/2^7x2^10/sm_90",
                            "threads=256 rows=1"};
  // Looked up and not there: named all the same.
  EXPECT_THAT(*ApplyTuning(plan, {}, target), ElementsAre(mine.key + " "));
  EXPECT_THAT(*ApplyTuning(plan, {other}, target), ElementsAre(mine.key + " "));
  const KernelVariant& variant = std::get<PlannedKernel>(plan.steps[0]).variant;
  EXPECT_EQ(ThreadsOf(variant), 128);
  EXPECT_THAT(*ApplyTuning(plan, {mine, other}, target),
              ElementsAre(mine.key + " threads=256 rows=1"));
  EXPECT_EQ(ThreadsOf(variant), 256);
}

TEST(ApplyTuning, AChoiceThatNoKernelCanHaveIsRefused) {
  const Target target = TargetOf("sm_90");
  KernelPlan plan;
  const std::string row = "row_reduction/f32/2^7x2^10/sm_90";
  // Also in a plan that has no such row: what is wrong for one is for all.
  for (const TunedChoice& bad : std::vector<TunedChoice>{
           {row, "threads=1024 rows=1024"},
           {row, "threads=100 rows=1"},
           {row, "threads=0 rows=1"},
           {row, "accumulators=4"},
           {row, "swirl=7"},
           {row, ""},
           {"row_reduction/f32/2^7x2^10/sm_80", "threads=64 rows=2"},
           {"matmul/f32/2^7x2^10/sm_90", "threads=64 rows=2"},
           {"", "threads=64 rows=2"}}) {
    EXPECT_EQ(ReasonOf(ApplyTuning(plan, {bad}, target).status()),
              ErrorReason::kBadOption)
        << bad.key << " " << bad.choice;
  }
}

wire::MeasureRequest OneVariant(uint32_t kernel, uint32_t threads) {
  wire::MeasureRequest request;
  request.set_key("row");
  request.mutable_target()->mutable_cpu()->set_level("x86-64");
  request.add_variants()->add_symbols("k");
  request.add_choices("only");
  wire::LaunchStep& launch = *request.add_launches();
  launch.set_kernel(kernel);
  launch.add_block(threads);
  launch.add_block(threads);
  return request;
}

TEST(Measure, AKernelThatIsNotThereAndABlockThatCannotBeAreRefused) {
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  ToldStopwatch stopwatch({});
  for (const auto& [kernel, threads] :
       std::vector<std::pair<uint32_t, uint32_t>>{
           {1, 1}, {1u << 31, 1}, {0, 0}, {0, 33}, {0, 1u << 31}}) {
    const auto answer =
        AnswerMeasure(OneVariant(kernel, threads), *toolchain, stopwatch);
    EXPECT_EQ(ReasonOf(answer.status()), ErrorReason::kBadOption)
        << kernel << " " << threads;
  }
}

}  // namespace
}  // namespace kiln

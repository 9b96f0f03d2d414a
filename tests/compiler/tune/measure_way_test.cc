#include "compiler/tune/measure_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "compiler/graph/graph_text.h"
#include "compiler/graph_passes/graph_pipeline.h"
#include "compiler/loop/lower_graph.h"
#include "compiler/schedule/plan_pipeline.h"
#include "proto/base/status.h"
#include "tests/compiler/tune/echo_toolchain.h"

namespace kiln {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Logits of a vocabulary of 8 n + 1 words.
constexpr char kLogits[] =
    "graph @g() on cuda(%x: bf16[8192, 768] align 16, "
    "%w: bf16[50257, 768] align 16) -> (%y) {\n"
    "  %t = t(%w)\n  %y = mm(%x, %t)\n}\n";

// Kernels take a second. A call takes ten, or what it is told for calls whose result
// has this many columns; 0: the library does not take them.
class ToldTimes final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel& kernel,
                                       int repeats) override {
    EXPECT_GT(repeats, 0);
    EXPECT_TRUE(absl::StrContains(kernel.image, kernel.symbol));
    ++kernels;
    return 1.0;
  }
  absl::StatusOr<double> MedianSeconds(const TimedCall& call, int) override {
    EXPECT_EQ(call.target, "sm_90");
    const int64_t width = call.outputs.at(0).sizes.back();
    widths.push_back(width);
    if (width != told_width) return 10.0;
    if (told_seconds > 0) return told_seconds;
    return MakeError(ErrorReason::kUnsupportedOp, "no such call");
  }

  int64_t told_width = 0;
  double told_seconds = 0;
  int kernels = 0;
  std::vector<int64_t> widths;
};

struct Subject {
  explicit Subject(absl::string_view family, const std::string& text = kLogits,
                   absl::string_view target = "sm_90")
      : env{*TargetFromName(target), {}}, graph(*ParseGraph(text)) {
    std::vector<PassRecord> records;
    EXPECT_EQ(RunGraphPipeline(graph, env, records), absl::OkStatus());
    const auto plan = PlanKernels(Loops(), env);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const auto& [its, decision] : plan->tuned)
      if (absl::StartsWith(its, family)) key = its;
  }
  LoopProgram Loops() const { return *LowerGraph(graph, {}); }
  absl::StatusOr<Measurement> Measure(Stopwatch& stopwatch,
                                      std::vector<std::string> choices = {}) {
    EchoToolchain toolchain;
    return MeasureWay(Loops(), env, key, {.choices = std::move(choices)},
                      toolchain, stopwatch);
  }

  PassEnv env;
  Graph graph;
  std::string key;
};

double SecondsOf(const Measurement& measured, absl::string_view choice) {
  for (size_t i = 0; i < measured.choices.size(); ++i)
    if (measured.choices[i] == choice) return measured.seconds[i];
  ADD_FAILURE() << "no " << choice;
  return 0;
}

TEST(MeasureWay, TheFastestWayToAlignAProductWins) {
  Subject subject("way_align/");
  ASSERT_THAT(subject.key, HasSubstr("way_align/bf16/8192x50257x768/"));
  // The product as it is, then as a part of it is not.
  for (const double whole : {2000.0, 1.0}) {
    ToldTimes times;
    times.told_width = 50257;
    times.told_seconds = whole;
    const auto measured = subject.Measure(times);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(measured->key, subject.key);
    for (const char* way : {"plain", "peel", "pad"})
      EXPECT_THAT(measured->choices, Contains(way));
    EXPECT_EQ(SecondsOf(*measured, "plain"), whole);
    EXPECT_EQ(measured->choice == "plain", whole == 1.0) << measured->choice;
    // A product of 50,256 columns, one of the last, and copies of ours.
    EXPECT_THAT(times.widths, Contains(50256));
    EXPECT_GT(times.kernels, 0);
    // A padded product is one call, with copies in front of it and behind it.
    EXPECT_EQ(SecondsOf(*measured, "pad"), 10 + 2);
    EXPECT_THAT(times.widths, Contains(50264));
  }
}

TEST(MeasureWay, AWayThatALibraryLacksIsLeftOut) {
  Subject subject("way_align/");
  ToldTimes times;
  times.told_width = 50264;
  const auto measured = subject.Measure(times);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->choices, Contains("peel"));
  EXPECT_THAT(measured->choices, Each(testing::Ne("pad")));
  EXPECT_EQ(measured->seconds.size(), measured->choices.size());
  // Not if it is asked for.
  const auto asked = subject.Measure(times, {"pad"});
  EXPECT_EQ(ReasonOf(asked.status()), ErrorReason::kUnsupportedOp);
  EXPECT_THAT(asked.status().message(), HasSubstr(subject.key + " as pad"));
}

TEST(MeasureWay, AChoiceThatIsGivenIsTimedAlone) {
  Subject subject("way_align/");
  ToldTimes times;
  const auto measured = subject.Measure(times, {"plain"});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->choice, "plain");
  EXPECT_THAT(times.widths, ElementsAre(50257));
  EXPECT_EQ(ReasonOf(subject.Measure(times, {"widest"}).status()),
            ErrorReason::kBadOption);
}

TEST(MeasureWay, AKeyOfNothingIsRefused) {
  Subject subject("way_align/");
  ToldTimes times;
  for (const char* key : {"way_align/other", "way_"}) {
    subject.key = key;
    const auto measured = subject.Measure(times);
    EXPECT_EQ(ReasonOf(measured.status()), ErrorReason::kBadOption) << key;
    EXPECT_THAT(measured.status().message(), HasSubstr(key));
  }
}

// A product of few rows: by rule a library's. A row by a matrix: by rule loops of ours.
std::string Product(const std::string& rows) {
  return "graph @g() on cuda(%a: bf16[" + rows +
         ", 512] align 16, %b: bf16[512, 256] align 16) -> (%y) {\n"
         "  %y = mm(%a, %b)\n}\n";
}

TEST(MeasureWay, ALibraryOrLoopsOfOursWhicheverIsFaster) {
  Subject few("way_product/", Product("16"));
  ToldTimes slow;  // 10 seconds, and one for a kernel of ours
  const auto loops = few.Measure(slow);
  ASSERT_TRUE(loops.ok()) << loops.status();
  EXPECT_THAT(loops->choices, ElementsAre("library", "loops"));
  EXPECT_THAT(loops->seconds, ElementsAre(10, 1));
  EXPECT_EQ(loops->choice, "loops");
  ToldTimes fast;
  fast.told_width = 256;
  fast.told_seconds = 0.5;
  EXPECT_EQ(few.Measure(fast)->choice, "library");
}

// What fusion spares is not measured.
TEST(MeasureWay, AnotherWayThanLoopsOfOursMustSaveALaunch) {
  Subject row("way_product/", Product("1"));
  for (const bool enough : {false, true}) {
    ToldTimes times;
    times.told_width = 256;
    times.told_seconds = enough ? 0.9 : 1 - 1e-6;
    const auto measured = row.Measure(times);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_THAT(measured->choices, ElementsAre("loops", "library"));
    EXPECT_EQ(measured->choice, enough ? "library" : "loops");
  }
}

// A device whose clock rises with each measurement. `call` and `kernel`: what they take
// in the end.
class RisingClock final : public Stopwatch {
 public:
  absl::StatusOr<double> MedianSeconds(const TimedKernel&,
                                       int repeats) override {
    return Now(kernel, repeats);
  }
  absl::StatusOr<double> MedianSeconds(const TimedCall&, int repeats) override {
    return Now(call, repeats);
  }

  double call = 1e-6, kernel = 1.1e-6;
  int all_repeats = 0;

 private:
  double Now(double in_the_end, int repeats) {
    all_repeats += repeats;
    return in_the_end * (1 + 1.0 / ++measured_);
  }
  int measured_ = 0;
};

TEST(MeasureWay, WhoIsTimedFirstIsNotTimedAtAnotherClock) {
  Subject few("way_product/", Product("16"));
  RisingClock clock;
  const auto measured = few.Measure(clock);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->choices, ElementsAre("library", "loops"));
  EXPECT_LT(measured->seconds[0], measured->seconds[1]);
  EXPECT_EQ(measured->choice, "library");
  // Each as often as one that is timed at once.
  EXPECT_EQ(clock.all_repeats, 2 * kUsualRepeats);
}

// Times of calls and of kernels as they are told, in order.
class ToldTurns final : public Stopwatch {
 public:
  ToldTurns(std::vector<double> calls, std::vector<double> kernels)
      : calls_(std::move(calls)), kernels_(std::move(kernels)) {}
  absl::StatusOr<double> MedianSeconds(const TimedKernel&, int) override {
    return kernels_.at(kernel_++);
  }
  absl::StatusOr<double> MedianSeconds(const TimedCall&, int) override {
    return calls_.at(call_++);
  }

 private:
  std::vector<double> calls_, kernels_;
  size_t call_ = 0, kernel_ = 0;
};

TEST(MeasureWay, TheRulesChoiceStaysWhereOthersAreWithinTheNoise) {
  Subject few("way_product/", Product("16"));
  ToldTurns noisy({6, 4, 5}, {4.8, 4.2, 4.4});
  const auto stays = few.Measure(noisy);
  ASSERT_TRUE(stays.ok()) << stays.status();
  EXPECT_THAT(stays->choices, ElementsAre("library", "loops"));
  EXPECT_THAT(stays->seconds, ElementsAre(5, 4.4));
  EXPECT_EQ(stays->choice, "library");
  // The same times where the turns agree.
  ToldTurns still({5, 5.1, 5}, {4.4, 4.4, 4.3});
  EXPECT_EQ(few.Measure(still)->choice, "loops");
  // A noisy winner that saves more than its noise.
  ToldTurns far({5, 5, 5}, {3, 2, 1});
  EXPECT_EQ(few.Measure(far)->choice, "loops");
}

TEST(MeasureWay, AttentionIsTimedAsCudnnsAndAsOurs) {
  Subject subject(
      "way_attention/",
      "graph @g() on cuda(%q: bf16[2, 4, 96, 256] align 16) -> (%o) {\n"
      "  %o, %l, %2, %3, %4, %5, %s, %f, %8 = "
      "_scaled_dot_product_cudnn_attention(%q, %q, %q, none, true)\n}\n");
  ToldTimes times;
  const auto measured = subject.Measure(times);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->choices, ElementsAre("library", "flash"));
  EXPECT_THAT(measured->seconds, ElementsAre(10, 1));
  EXPECT_EQ(measured->choice, "flash");
  // A cuDNN that is too old for such heads.
  times.told_width = 256;
  const auto alone = subject.Measure(times);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_THAT(alone->choices, ElementsAre("flash"));
}

}  // namespace
}  // namespace kiln

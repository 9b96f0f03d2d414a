// The graph tree over plans, on the null device: copies and fills are the work.
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(PlanGraphsTest, WarmsUpRecordsAndReplaysWhatTheInputsHold) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 6; ++i) {
    const auto y = Begin(copy, {Vector(10.0f * i)});
    EXPECT_THAT(FloatValues(y[0]),
                ElementsAre(10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3));
  }
  EXPECT_EQ(counters().warm_ups, 1);
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(counters().recorded_copied_inputs, 1);
  EXPECT_EQ(counters().replays, 4);
}

TEST_F(PlanGraphsTest, ChainsHandTheirResultsOnWithoutACopy) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 5; ++i) {
    auto y = Begin(copy, {Vector(i)});
    auto z = Call(copy, {std::move(y[0])});
    y.clear();
    const auto w = Call(copy, {std::move(z[0])});
    EXPECT_THAT(FloatValues(w[0]), ElementsAre(i, i + 1, i + 2, i + 3));
  }
  EXPECT_EQ(counters().recordings, 3);
  EXPECT_EQ(counters().recorded_copied_inputs, 1);
  EXPECT_EQ(graphs_->tree().Roots().size(), 1);
}

TEST_F(PlanGraphsTest, KeptResultsHoldTheirValuesInAStep) {
  const int copy = Add(CopyPlan());
  for (int step = 0; step < 5; ++step) {
    graphs_->BeginStep();
    std::vector<Tensor> kept;
    for (int i = 0; i < 4; ++i)
      kept.push_back(Call(copy, {Vector(100 * step + i)})[0]);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(FloatValues(kept[i])[0], 100 * step + i);
    }
  }
  EXPECT_EQ(counters().recordings, 4);
}

TEST_F(PlanGraphsTest, AResultThatIsDroppedLeavesNoBlock) {
  const int two = Add(TwoResultsPlan());
  auto results = Begin(two, {Vector(1)});
  EXPECT_EQ(AllocatedBlocks(), 2);
  results.resize(2);  // z has another view
  EXPECT_EQ(AllocatedBlocks(), 2);
  results.clear();
  EXPECT_EQ(AllocatedBlocks(), 0);
  results = Begin(two, {Vector(2)});
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_THAT(FloatValues(results[1]), ElementsAre(7, 3, 4, 5));
  results.erase(results.begin());
  EXPECT_EQ(AllocatedBlocks(), 1);
  results.clear();
  EXPECT_EQ(AllocatedBlocks(), 0);
}

TEST_F(PlanGraphsTest, ViewsOfAResultShareItsStorageInReplaysToo) {
  const int two = Add(TwoResultsPlan());
  for (int i = 0; i < 4; ++i) {
    const auto results = Begin(two, {Vector(i)});
    EXPECT_EQ(results[1].data, results[2].data);
    EXPECT_EQ(results[1].owner, results[2].owner);
    EXPECT_NE(results[0].owner, results[2].owner);
  }
  EXPECT_EQ(counters().replays, 2);
}

TEST_F(PlanGraphsTest, AReplayedPathIsLeftWithTheRightBlocks) {
  const int copy = Add(CopyPlan());
  const int two = Add(TwoResultsPlan());
  Begin(copy, {Vector(1)});
  Begin(two, {Vector(1)});
  for (int i = 0; i < 2; ++i) Begin(copy, {Vector(1)});
  // `two` is recorded behind the replay of `copy`, whose result is kept.
  auto kept = Begin(copy, {Vector(3)});
  auto results = Call(two, {kept[0]});
  EXPECT_EQ(counters().checkpoints, 1);
  EXPECT_THAT(FloatValues(kept[0]), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(FloatValues(results[0]), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(AllocatedBlocks(), 3);
  kept.clear();
  results.clear();
  EXPECT_EQ(AllocatedBlocks(), 0);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
}

TEST_F(PlanGraphsTest, AResultOfAnEarlierStepIsRefusedAsAnInput) {
  const int copy = Add(CopyPlan());
  auto y = Begin(copy, {Vector(1)});
  Begin(copy, {Vector(2)});
  const absl::Status stale = graphs_->Run(copy, {y[0]}, {}).status();
  EXPECT_EQ(stale.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(stale.message(), HasSubstr("overwritten by a subsequent run"));
  Begin(copy, {Vector(4)});
}

TEST_F(PlanGraphsTest, AStaticInputIsNotCopiedAndIsRecordedAnewWhereItMoves) {
  const int copy = Add(CopyPlan(), {0});
  const Tensor first = Vector(1);
  const Tensor second = Vector(5);
  for (int i = 0; i < 4; ++i) Begin(copy, {first});
  EXPECT_EQ(counters().recorded_copied_inputs, 0);
  static_cast<float*>(first.data)[0] = 9;
  EXPECT_EQ(FloatValues(Begin(copy, {first})[0])[0], 9);
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(FloatValues(Begin(copy, {second})[0])[0], 5);
  EXPECT_EQ(counters().recordings, 2);
  EXPECT_EQ(FloatValues(Begin(copy, {first})[0])[0], 9);
  EXPECT_EQ(counters().recordings, 2);
}

TEST_F(PlanGraphsTest, APlanThatWritesAnInputGoesWithoutAGraph) {
  const int mutating = Add(MutatingPlan());
  for (int i = 0; i < 3; ++i) {
    const Tensor x = Vector(1);
    const auto y = Begin(mutating, {x});
    EXPECT_EQ(y[0].data, x.data);
    EXPECT_THAT(FloatValues(x), ElementsAre(7, 2, 3, 4));
  }
  EXPECT_EQ(counters().recordings, 0);
  EXPECT_EQ(counters().skips, 1);
  const auto notes = graphs_->TakeNotes();
  ASSERT_EQ(notes.size(), 1);
  EXPECT_THAT(notes[0].text, HasSubstr("mutated inputs (1 instances)"));
}

TEST_F(PlanGraphsTest, AResultMayBeWrittenByAGraphThatFollows) {
  const int copy = Add(CopyPlan());
  const int mutating = Add(MutatingPlan());
  for (int i = 0; i < 5; ++i) {
    const auto y = Begin(copy, {Vector(1)});
    const auto z = Call(mutating, {y[0]});
    EXPECT_THAT(FloatValues(y[0]), ElementsAre(7, 2, 3, 4));
    EXPECT_EQ(z[0].data, y[0].data);
  }
  EXPECT_EQ(counters().recordings, 2);
  EXPECT_EQ(counters().skips, 0);
}

TEST_F(PlanGraphsTest, AnErrorLeavesTheNextCallWorking) {
  const int copy = Add(CopyPlan());
  EXPECT_FALSE(graphs_->Run(copy, {Vector(1), Vector(2)}, {}).ok());
  EXPECT_FALSE(graphs_->Run(copy, {}, {}).ok());
  Tensor shorter = Vector(1);
  shorter.sizes = {3};
  EXPECT_FALSE(graphs_->Run(copy, {shorter}, {}).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(FloatValues(Begin(copy, {Vector(i)})[0])[0], i);
  }
}

TEST_F(PlanGraphsTest, ResultsOutliveTheGraphsAndMemoryGoesBackWithThem) {
  for (const int runs : {1, 2, 3}) {  // a warm-up, a recording, a replay
    SCOPED_TRACE(runs);
    MakeGraphs();
    const int copy = Add(CopyPlan());
    std::vector<Tensor> kept;
    for (int i = 0; i < runs; ++i) kept = Begin(copy, {Vector(4)});
    graphs_.reset();
    EXPECT_GT(allocator_->figures().segment_bytes, 0);
    EXPECT_THAT(FloatValues(kept[0]), ElementsAre(4, 5, 6, 7));
    kept.clear();
    EXPECT_EQ(allocator_->figures().segment_bytes, 0);
  }
}

TEST_F(PlanGraphsTest, AResultIsFoundByItsAddressWhileItLives) {
  const int copy = Add(CopyPlan());
  std::vector<Tensor> kept = Begin(copy, {Vector(1)});
  const void* const dropped = kept[0].data;
  kept.clear();
  EXPECT_EQ(graphs_->memory().OwnerAt(dropped), nullptr);
  for (int i = 0; i < 4; ++i) {
    auto y = Begin(copy, {Vector(i)});
    EXPECT_EQ(graphs_->memory().OwnerAt(y[0].data), y[0].owner);
    kept.push_back(std::move(y[0]));
  }
  // Of two at one address the later one counts, and the earlier one after it.
  ASSERT_EQ(kept[2].data, kept[3].data);
  void* const data = kept[3].data;
  kept.pop_back();
  EXPECT_EQ(graphs_->memory().OwnerAt(data), kept[2].owner);
}

TEST_F(PlanGraphsTest, BareViewsAreWarmedUpRecordedAndReplayedLikeTensors) {
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 6; ++i) {
    graphs_->BeginStep();
    const Tensor x = Vector(10.0f * i);
    const auto y = graphs_->RunViews(copy, {Bare(x)}, {});
    ASSERT_TRUE(y.ok()) << y.status();
    const Tensor& handed_on = std::get<Tensor>((*y)[0]);
    const auto z = graphs_->RunViews(copy, {Bare(handed_on)}, {});
    ASSERT_TRUE(z.ok()) << z.status();
    EXPECT_THAT(FloatValues(std::get<Tensor>((*z)[0])),
                ElementsAre(10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3));
  }
  EXPECT_EQ(counters().recordings, 2);
  EXPECT_EQ(counters().recorded_copied_inputs, 1);  // the result is read there
}

TEST_F(PlanGraphsTest, AStaleResultIsRefusedAsABareViewTooWhileItIsHeld) {
  const int copy = Add(CopyPlan());
  auto stale = Begin(copy, {Vector(1)});
  const Tensor fresh = Vector(2);
  graphs_->BeginStep();
  ASSERT_TRUE(graphs_->RunViews(copy, {Bare(fresh)}, {}).ok());
  EXPECT_TRUE(graphs_->memory().HasInvalid());
  const absl::Status refused =
      graphs_->RunViews(copy, {Bare(stale[0])}, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  stale.clear();
  EXPECT_FALSE(graphs_->memory().HasInvalid());
  EXPECT_TRUE(graphs_->RunViews(copy, {Bare(fresh)}, {}).ok());
}

class RandomPrograms : public PlanGraphsTest,
                       public testing::WithParamInterface<int> {};

// Any program of calls, keeping and dropping against values that share nothing,
// with a parameter that moves at times.
TEST_P(RandomPrograms, ReadWhatTheyWouldAlone) {
  enum { kCopy, kTwoResults, kParameter };
  const int plans[] = {Add(CopyPlan()), Add(TwoResultsPlan()),
                       Add(CopyPlan(), {0})};
  std::mt19937 random(GetParam());
  const auto below = [&](int limit) {
    return static_cast<int>(random() % limit);
  };
  Tensor parameter = Vector(1);
  for (int step = 0; step < 200 && !HasFailure(); ++step) {
    graphs_->BeginStep();
    if (below(16) == 0) parameter = Vector(static_cast<float>(below(1000)));
    std::vector<std::pair<Tensor, std::vector<float>>> kept;
    for (int call = 0, calls = 1 + below(5); call < calls; ++call) {
      const int plan = below(3);
      Tensor x = plan == kParameter ? parameter
                                    : Vector(static_cast<float>(below(1000)));
      std::vector<float> held = FloatValues(x);
      if (plan != kParameter && !kept.empty() && below(2) == 0) {
        std::tie(x, held) = kept[below(static_cast<int>(kept.size()))];
      }
      const auto results = Call(plans[plan], {std::move(x)});
      ASSERT_EQ(results.size(), plan == kTwoResults ? 3 : 1);
      EXPECT_EQ(FloatValues(results[0]), held);
      if (below(3) != 0) kept.push_back({results[0], held});
      if (plan == kTwoResults) {
        held[0] = 7;
        EXPECT_EQ(FloatValues(results[2]), held);
        if (below(2) == 0) kept.push_back({results[1], held});
      }
      if (!kept.empty() && below(3) == 0) kept.erase(kept.begin());
      for (const auto& [tensor, values] : kept) {
        EXPECT_EQ(FloatValues(tensor), values) << "step " << step;
      }
    }
  }
  EXPECT_GT(counters().replays, 200);
  EXPECT_GT(counters().checkpoints, 10);
  EXPECT_EQ(allocator_->figures().unknown_frees, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range(1, 9));

TEST(PlanGraphs, TheCpuHasNone) {
  const OpenedDevice cpu = TestCpu();
  EXPECT_EQ(PlanGraphs::Make(cpu.device, std::make_shared<CachingAllocator>(
                                             cpu.device->segments()))
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace kiln

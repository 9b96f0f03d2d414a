// How many recordings a program gets, of which sizes, and what becomes of them.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/plan_graphs/plan_graphs_rig.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Limits : public PlanGraphsTest {
 protected:
  void MakeGraphsWith(GraphOptions options) {
    graphs_.reset();
    auto made = PlanGraphs::Make(device_, allocator_, std::move(options));
    ASSERT_TRUE(made.ok()) << made.status();
    graphs_ = *std::move(made);
  }
  std::vector<std::string> Notes() {
    std::vector<std::string> texts;
    for (const auto& note : graphs_->TakeNotes()) texts.push_back(note.text);
    return texts;
  }
  // The first elements of x, as many as asked.
  std::vector<float> CallWith(int plan, int64_t elements) {
    Tensor x = FloatTensor({8}, {0, 1, 2, 3, 4, 5, 6, 7});
    x.device = DeviceKind::kNull;
    x.sizes = {elements};
    return FloatValues(Begin(plan, {x})[0]);
  }
};

// y = x for x of any length.
constexpr char kAnySize[] = R"(
  symbols { name: "s0" source { kind: KIND_SIZE input: 0 dim: 0 } min: 1 max: 8 }
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL value: 0 } }
    strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 32 } }
  steps { copy {
    from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL value: 0 } }
      strides { value: 1 } }
    to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL value: 0 } }
      strides { value: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL value: 0 } } strides { value: 1 } } })";

TEST_F(Limits, AStaticInputThatAlwaysMovesGoesWithoutAGraphInTheEnd) {
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({}));
  const int copy = Add(CopyPlan(), {0});
  std::vector<Tensor> places;
  for (int i = 0; i < 160; ++i) {
    places.push_back(Vector(static_cast<float>(i)));
    EXPECT_EQ(FloatValues(Begin(copy, {places.back()})[0])[0], i);
  }
  EXPECT_EQ(counters().recordings, 1 + 128);
  EXPECT_EQ(counters().plain_runs, 160 - 1 - 129);
  EXPECT_EQ(counters().skips, 1);
  EXPECT_THAT(Notes().back(),
              HasSubstr("exceeding max re-recording limit (=128)"));
}

TEST_F(Limits, ManySizesAreToldOfOnce) {
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({.sizes_warn_limit = 2}));
  const int copy = Add(kAnySize);
  for (const int64_t size : {1, 2, 1, 2}) CallWith(copy, size);
  EXPECT_THAT(Notes(), IsEmpty());
  for (const int64_t size : {3, 4, 5}) CallWith(copy, size);
  EXPECT_THAT(Notes(), ElementsAre(HasSubstr("has met 3 of them")));
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({.sizes_warn_limit = 0}));
  const int again = Add(kAnySize);
  for (const int64_t size : {1, 2, 3, 4}) CallWith(again, size);
  EXPECT_THAT(Notes(), IsEmpty());
}

TEST_F(Limits, OnlyTheSizesThatWereNamedGetGraphs) {
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({.capture_sizes = {{2}, {4}}}));
  const int copy = Add(kAnySize);
  for (int i = 0; i < 3; ++i) {
    for (const int64_t size : {2, 3, 4, 5}) {
      EXPECT_EQ(CallWith(copy, size).size(), size);
    }
  }
  EXPECT_EQ(counters().recordings, 2);
  EXPECT_EQ(counters().plain_runs, 6);
  EXPECT_EQ(counters().skips, 0);
  EXPECT_THAT(Notes(), ElementsAre("no device graph of sizes that "
                                   "capture_sizes does not list"));
}

TEST_F(Limits, PlansWithSymbolsGoWithoutGraphsWhereAsked) {
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({.skip_dynamic = true}));
  const int copy = Add(kAnySize);
  const int fixed = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(CallWith(copy, 2), ElementsAre(0, 1));
    Begin(fixed, {Vector(1)});
  }
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(counters().plain_runs, 3);
  EXPECT_THAT(Notes(),
              ElementsAre("skipping cudagraphs due to dynamic shape ops"));
}

TEST_F(Limits, ASkipIsAnErrorWhereAsked) {
  ASSERT_NO_FATAL_FAILURE(
      MakeGraphsWith({.skip_dynamic = true, .skip_is_error = true}));
  const int copy = Add(kAnySize);
  EXPECT_EQ(graphs_->Run(copy, {Vector(1)}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(Limits, AResultsMutationIsRefusedWhereAsked) {
  ASSERT_NO_FATAL_FAILURE(MakeGraphsWith({.mutation_of_results = false}));
  const int copy = Add(CopyPlan());
  const int mutating = Add(MutatingPlan());
  for (int i = 0; i < 3; ++i) {
    const auto y = Begin(copy, {Vector(1)});
    Call(mutating, {y[0]});
    EXPECT_THAT(FloatValues(y[0]), ElementsAre(7, 2, 3, 4));
  }
  EXPECT_EQ(counters().recordings, 1);
  EXPECT_EQ(counters().skips, 1);
}

// A copy of more dimensions than the device takes, of two elements that lie too far
// apart to be copied with what is between them.
TEST_F(Limits, ARecordingThatCannotBeMadeIsASkipWithItsReason) {
  const int f = Add(R"(
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 1 } sizes { value: 1 }
      sizes { value: 1 } sizes { value: 1 } sizes { value: 1 } sizes { value: 1 }
      sizes { value: 2 } strides { value: 4 } strides { value: 4 }
      strides { value: 4 } strides { value: 4 } strides { value: 4 }
      strides { value: 4 } strides { value: 262146 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 1048588 } }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    steps { copy {
      from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 262146 } }
      to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } })");
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 4; ++i) {
    Tensor x = Vector(static_cast<float>(i), 262147);
    x.sizes = {1, 1, 1, 1, 1, 1, 2};
    x.strides = {4, 4, 4, 4, 4, 4, 262146};
    EXPECT_THAT(FloatValues(Begin(f, {x})[0]), ElementsAre(i, i + 262146));
    EXPECT_EQ(FloatValues(Begin(copy, {Vector(8)})[0])[0], 8);
  }
  EXPECT_EQ(counters().plain_runs, 3);
  EXPECT_EQ(counters().replays, 2);
  EXPECT_THAT(Notes(),
              ElementsAre("skipping cudagraphs due to a recording that "
                          "cannot be made: copy of 7 dimensions"));
}

TEST_F(Limits, WithoutMemoryNothingIsLeft) {
  const auto little =
      std::make_shared<CachingAllocator>(device_->segments(), 1000);
  auto made = PlanGraphs::Make(device_, little);
  ASSERT_TRUE(made.ok()) << made.status();
  std::swap(graphs_, *made);
  const int copy = Add(CopyPlan());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(graphs_->Run(copy, {Vector(1)}, {}).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(little->figures().segment_bytes, 0);
  std::swap(graphs_, *made);
}

// A warm-up takes two blocks of 7 MB, and a recording three.
TEST_F(Limits, WhereMemoryRunsOutWhileRecordingNothingIsLeftAndOthersWork) {
  constexpr int64_t kElements = 7 << 18;
  const std::string view =
      absl::StrCat("dtype: DTYPE_FLOAT32 sizes { value: ", kElements,
                   " } strides { value: 1 } ");
  const std::string buffer =
      absl::StrCat(" bytes { value: ", 4 * kElements, " } } ");
  const auto step = [&](int to) {
    return absl::StrCat("steps { copy { from { buffer: 0 ", view,
                        "} to { buffer: ", to, " ", view, "} } } ");
  };
  const auto memory = std::make_shared<CachingAllocator>(
      device_->segments(),
      BlockPool::kMiddleSegment + BlockPool::kSmallSegment);
  auto made = PlanGraphs::Make(device_, memory);
  ASSERT_TRUE(made.ok()) << made.status();
  std::swap(graphs_, *made);
  const int big =
      Add(absl::StrCat("inputs { tensor { ", view, "} } ",
                       "buffers { kind: KIND_INPUT index: 0 name: 'x'", buffer,
                       "buffers { kind: KIND_OUTPUT name: 'y'", buffer,
                       "buffers { kind: KIND_OUTPUT name: 'z'", buffer, step(1),
                       step(2), "outputs { view { buffer: 1 ", view,
                       "} } outputs { view { buffer: 2 ", view, "} }"));
  const int copy = Add(CopyPlan());
  Tensor x = FloatTensor({kElements}, std::vector<float>(kElements, 3));
  x.device = DeviceKind::kNull;
  Begin(big, {x});
  for (int i = 0; i < 3; ++i) {
    graphs_->BeginStep();
    EXPECT_EQ(graphs_->Run(big, {x}, {}).status().code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(memory->figures().allocated_bytes, 0);
    EXPECT_EQ(FloatValues(Begin(copy, {Vector(i)})[0])[0], i);
  }
  EXPECT_EQ(counters().recordings, 1);
  std::swap(graphs_, *made);
}

TEST_F(Limits, APlanThatIsRemovedLeavesNothingBehind) {
  const int copy = Add(CopyPlan());
  auto executor = Load(Seal(MakeTestArtifact(TwoResultsPlan())),
                       {device_, MakeNullExterns()});
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::weak_ptr<const Executor> alive = *executor;
  const int two = graphs_->Add(*std::move(executor), {});
  executor = absl::UnknownError("moved");
  for (int i = 0; i < 3; ++i) {
    auto y = Begin(two, {Vector(1)});
    y = Call(copy, {y[0]});
  }
  auto kept = Begin(two, {Vector(5)});
  graphs_->Remove(two);
  EXPECT_FALSE(alive.expired());  // the step goes on
  EXPECT_THAT(FloatValues(kept[0]), ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(FloatValues(Begin(copy, {Vector(3)})[0])[0], 3);
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(graphs_->tree().Roots().size(), 1u);
}

TEST_F(Limits, MemorySaysWhichStepOfWhichPlanHoldsIt) {
  Add(MutatingPlan());
  const int copy = Add(CopyPlan());
  const auto y = Begin(copy, {Vector(1)});
  EXPECT_THAT(allocator_->ToText(),
              HasSubstr("allocated, plan 1: y, step 1\n"));
  EXPECT_THAT(allocator_->ToText(), testing::Not(HasSubstr("plan 1: t")));
  const auto recorded = Begin(copy, {Vector(2)});
  EXPECT_THAT(allocator_->ToText(),
              HasSubstr("allocated, plan 1: y, step 1\n"));
}

}  // namespace
}  // namespace kiln

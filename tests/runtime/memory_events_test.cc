#include "runtime/memory_events.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/read_plan.h"
#include "tests/runtime/test_artifact.h"

// When a run takes memory, gives it back, and lets go of its inputs: as planned,
// and when it ends in the middle.

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// A vector of 2^18 f32, 1 MiB: the least whose end is told. SMALL is one less.
constexpr char kLarge[] = "sizes { value: 262144 } strides { value: 1 }";
constexpr char kSmall[] = "sizes { value: 262143 } strides { value: 1 }";

std::string Input(const char* layout) {
  return absl::StrCat("inputs { tensor { dtype: DTYPE_FLOAT32 ", layout,
                      " } }\n");
}
std::string Buffer(absl::string_view kind, int index, int64_t bytes) {
  return absl::StrCat("buffers { kind: KIND_", kind, " index: ", index,
                      " bytes { value: ", bytes, " } name: \"b\" }\n");
}
std::string View(int buffer) {
  return absl::StrCat("{ buffer: ", buffer,
                      " dtype: DTYPE_FLOAT32 sizes { value: 4 } "
                      "strides { value: 1 } }");
}
std::string Copy(int from, int to) {
  return absl::StrCat("steps { copy { from ", View(from), " to ", View(to),
                      " } }\n");
}
std::string Output(int buffer) {
  return absl::StrCat("outputs { view ", View(buffer), " }\n");
}

using Events = std::vector<std::pair<int, int>>;  // step, subject

Events Pairs(const std::vector<MemoryEvent>& events) {
  Events out;
  for (const MemoryEvent& event : events) {
    out.emplace_back(event.step, event.subject);
  }
  return out;
}

// The plan's events; sizes are all known at once.
MemoryEvents EventsOfText(const std::string& text) {
  const wire::Artifact artifact = MakeTestArtifact(text);
  const auto plan = ReadPlan(artifact);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  return EventsOf(*plan, std::vector<int32_t>(plan->buffers.size(), 0));
}

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryEvents, OwnMemoryLivesFromItsFirstStepToItsLast) {
  const MemoryEvents events = EventsOfText(
      Input(kLarge) + Buffer("INPUT", 0, kMiB) + Buffer("OWN", 0, 64) +
      Buffer("OWN", 0, 64) + Buffer("OUTPUT", 0, 64) + Copy(0, 1) + Copy(1, 2) +
      Copy(1, 2) + Copy(2, 3) + Output(3));
  EXPECT_THAT(Pairs(events.takes),
              ElementsAre(Pair(0, 1), Pair(1, 2), Pair(3, 3)));
  EXPECT_THAT(Pairs(events.gives), ElementsAre(Pair(2, 1), Pair(3, 2)));
}

TEST(MemoryEvents, OwnMemoryThatNoStepTouchesIsNeverTaken) {
  const MemoryEvents events =
      EventsOfText(Buffer("OWN", 0, 64) + Buffer("ARENA", 0, 0));
  EXPECT_THAT(events.takes, IsEmpty());
  EXPECT_THAT(events.gives, IsEmpty());
}

TEST(MemoryEvents, AnOutputThatNoStepWritesIsTakenWhenItsSizeIsKnown) {
  const MemoryEvents events = EventsOfText(Buffer("OUTPUT", 0, 64) + Output(0));
  EXPECT_THAT(Pairs(events.takes), ElementsAre(Pair(0, 0)));
}

TEST(MemoryEvents, AnInputIsTheCallersAgainAfterItsLastStep) {
  const MemoryEvents events =
      EventsOfText(Input(kLarge) + Input(kLarge) + Input(kLarge) +
                   Buffer("INPUT", 0, kMiB) + Buffer("INPUT", 1, kMiB) +
                   Buffer("INPUT", 2, kMiB) + Buffer("OUTPUT", 0, 64) +
                   Copy(1, 3) + Copy(0, 3) + Copy(1, 3) + Output(3));
  // The third, which nothing reads, at once.
  EXPECT_THAT(Pairs(events.inputs_done),
              ElementsAre(Pair(-1, 2), Pair(1, 0), Pair(2, 1)));
}

TEST(MemoryEvents, AnInputThatAResultViewsOrThatIsSmallIsNotToldOf) {
  const MemoryEvents events =
      EventsOfText(Input(kLarge) + Input(kSmall) + Buffer("INPUT", 0, kMiB) +
                   Buffer("INPUT", 1, kMiB - 4) + Buffer("OUTPUT", 0, 64) +
                   Copy(0, 2) + Copy(1, 2) + Output(0) + Output(2));
  EXPECT_THAT(events.inputs_done, IsEmpty());
}

// Two buffers on one input: the last step of both counts.
TEST(MemoryEvents, AnInputSeenThroughTwoBuffersIsDoneAfterTheLaterOne) {
  const MemoryEvents events = EventsOfText(
      Input(kLarge) + Buffer("INPUT", 0, kMiB) + Buffer("INPUT", 0, kMiB) +
      Buffer("OUTPUT", 0, 64) + Copy(1, 2) + Copy(0, 2) + Output(2));
  EXPECT_THAT(Pairs(events.inputs_done), ElementsAre(Pair(1, 0)));
}

// Hands out memory until the allowance is used up; knows what is out, and how
// often each input was let go of.
class Lender final : public Allocator, public InputObserver {
 public:
  explicit Lender(int allowance) : allowance_(allowance) {}

  absl::StatusOr<void*> Allocate(int64_t bytes, Stream) override {
    if (allowance_-- == 0) {
      return MakeError(ErrorReason::kNoDevice, "nothing left, said the test");
    }
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    out_.insert(memory);
    return memory;
  }
  void Free(void* memory, int64_t, Stream) override {
    EXPECT_EQ(out_.erase(memory), 1u) << "freed twice, or never taken";
    std::free(memory);
  }
  void Done(int32_t input) override { ++done[input]; }

  size_t out() const { return out_.size(); }

  std::map<int, int> done;

 private:
  int allowance_;
  std::set<void*> out_;
};

// input 0 -> own -> (input 1 is read) -> assertion that `input 2 < 5` ->
// output; inputs 0 and 1 of any size.
std::string FailingPlan() {
  const std::string any = R"(inputs { tensor { dtype: DTYPE_FLOAT32
    sizes { code { op: SYM_OP_SYMBOL value: N } } strides { value: 1 } } }
  )";
  return absl::StrCat(
      R"(symbols { name: "s0" source { kind: KIND_SIZE input: 0 } min: 4 max: 99 }
      symbols { name: "s1" source { kind: KIND_SIZE input: 1 } min: 4 max: 99 }
      symbols { name: "s2" source { kind: KIND_SCALAR input: 2 } }
      )",
      absl::StrReplaceAll(any, {{"N", "0"}}),
      absl::StrReplaceAll(any, {{"N", "1"}}),
      R"(inputs { scalar { code { op: SYM_OP_SYMBOL value: 2 } } }
      buffers { kind: KIND_INPUT index: 0 name: "x" bytes { code { op: SYM_OP_SYMBOL value: 0 } } }
      buffers { kind: KIND_INPUT index: 1 name: "z" bytes { code { op: SYM_OP_SYMBOL value: 1 } } }
      )",
      Buffer("OWN", 0, 16), Buffer("OUTPUT", 0, 16), Buffer("OUTPUT", 0, 16),
      Copy(0, 2), Copy(2, 3), R"(steps { assertion { message: "below five"
        condition { code { op: SYM_OP_SYMBOL value: 2 }
          code { op: SYM_OP_CONSTANT value: 5 } code { op: SYM_OP_LT } } } }
      )",
      Copy(1, 4), Output(3), Output(4));
}

class ARunThatEndsInTheMiddle : public testing::Test {
 protected:
  ARunThatEndsInTheMiddle() {
    auto executor = Load(Seal(MakeTestArtifact(FailingPlan())), TestCpu());
    EXPECT_TRUE(executor.ok()) << executor.status();
    if (executor.ok()) executor_ = *std::move(executor);
  }

  absl::StatusOr<std::vector<OutputValue>> Run(int64_t number, Lender& lender) {
    RunOptions options;
    options.allocator = &lender;
    options.inputs = &lender;
    const std::vector<InputValue> inputs = {
        FloatTensor({4}, {1, 2, 3, 4}), FloatTensor({4}, {5, 6, 7, 8}), number};
    return executor_->Run(inputs, options);
  }

  std::shared_ptr<const Executor> executor_;
};

TEST_F(ARunThatEndsInTheMiddle, GivesBackAllThatItTook) {
  ASSERT_NE(executor_, nullptr);
  Lender lender(100);
  const auto failed = Run(7, lender);
  EXPECT_EQ(ReasonOf(failed.status()), ErrorReason::kGuardFailed);
  EXPECT_EQ(lender.out(), 0u);
  // Input 0 was read for the last time before, input 1 was yet to be read.
  EXPECT_THAT(lender.done, ElementsAre(Pair(0, 1)));
}

TEST_F(ARunThatEndsInTheMiddle, GivesBackAllWhereverMemoryRunsOut) {
  ASSERT_NE(executor_, nullptr);
  Lender enough(100);
  ASSERT_TRUE(Run(1, enough).ok());
  EXPECT_THAT(enough.done, ElementsAre(Pair(0, 1), Pair(1, 1)));
  int refused = 0;
  for (int allowance = 0;; ++allowance) {
    Lender lender(allowance);
    const auto results = Run(1, lender);
    if (results.ok()) break;
    ++refused;
    EXPECT_EQ(ReasonOf(results.status()), ErrorReason::kNoDevice);
    EXPECT_EQ(lender.out(), 0u) << "with " << allowance;
    for (const auto& [input, times] : lender.done) {
      EXPECT_EQ(times, 1) << "of input " << input << " with " << allowance;
    }
  }
  EXPECT_EQ(refused, 3);  // own memory, two outputs
}

TEST_F(ARunThatEndsInTheMiddle, LeavesTheExecutorAsGoodAsBefore) {
  ASSERT_NE(executor_, nullptr);
  for (const int64_t number : {7, 1, 9, 2}) {
    Lender lender(100);
    {
      const auto results = Run(number, lender);
      ASSERT_EQ(results.ok(), number < 5);
      if (!results.ok()) continue;
      EXPECT_THAT(FloatValues(std::get<Tensor>((*results)[0])),
                  ElementsAre(1, 2, 3, 4));
      EXPECT_THAT(FloatValues(std::get<Tensor>((*results)[1])),
                  ElementsAre(5, 6, 7, 8));
      EXPECT_EQ(lender.out(), 2u);  // the results
    }
    EXPECT_EQ(lender.out(), 0u);
  }
}

}  // namespace
}  // namespace kiln

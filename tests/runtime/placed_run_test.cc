// Runs that are placed, and then put any number of times: on the CPU, which runs
// kernels.
#include "runtime/placed_run.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/null_device.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = (x + 1) + 2 for x: f32[4]; what is between has memory of its own.
constexpr char kTwoAdds[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" bytes { value: 16 } }
  buffers { kind: KIND_OWN name: "t" bytes { value: 32 } }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  kernels { symbol: "test_add" label: "add_0" }
  steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { buffer { buffer: 1 } }
    args { scalar { value: 4 } } args { scalar { value: 1 } }
    grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
  steps { launch { kernel: 0 args { buffer { buffer: 1 } } args { buffer { buffer: 2 } }
    args { scalar { value: 4 } } args { scalar { value: 2 } }
    grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
  outputs { view { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
)";

std::shared_ptr<const Executor> LoadOn(const OpenedDevice& device,
                                       const std::string& plan) {
  auto executor = Load(Seal(MakeTestArtifact(plan)), device);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? *executor : nullptr;
}

// Passes on to the null device's memory, and writes down what it is asked for.
class Ledger : public Allocator {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes, Stream stream) override {
    lines.push_back(absl::StrCat("take ", bytes));
    return device_->allocator().Allocate(bytes, stream);
  }
  void Free(void* memory, int64_t bytes, Stream) override {
    lines.push_back(absl::StrCat("free ", bytes));
    // Placed work uses what is free by now: in this test it stays.
    kept_.push_back({memory, bytes});
  }
  ~Ledger() override {
    for (const auto& [memory, bytes] : kept_) {
      device_->allocator().Free(memory, bytes, nullptr);
    }
  }

  std::vector<std::string> lines;

 private:
  const std::unique_ptr<Device> device_ = MakeNullDevice();
  std::vector<std::pair<void*, int64_t>> kept_;
};

TEST(PlacedRun, TakesAllMemoryFirstAndThenRunsAnyNumberOfTimes) {
  const auto executor = LoadOn(TestCpu(), kTwoAdds);
  ASSERT_NE(executor, nullptr);
  Ledger ledger;
  const Tensor x = FloatTensor({4}, {1, 2, 3, 4});
  const std::vector<InputValue> inputs = {x};
  auto run =
      PlacedRun::Place(executor, ViewsOf(inputs), {.allocator = &ledger});
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<std::string> placed = {"take 32", "take 16", "free 32"};
  EXPECT_EQ(ledger.lines, placed);
  std::vector<OutputValue> outputs = (*run)->TakeOutputs();
  const Tensor y = std::get<Tensor>(outputs[0]);
  outputs.clear();
  for (const float first : {1.0f, 5.0f}) {
    *static_cast<float*>(x.data) = first;
    ASSERT_TRUE((*run)->Put().ok());
    EXPECT_THAT(FloatValues(y), ElementsAre(first + 3, 5, 6, 7));
  }
  EXPECT_EQ(ledger.lines, placed);
  run->reset();
  EXPECT_EQ(ledger.lines, placed);
}

TEST(PlacedRun, WhatTheInputsAreNotIsSaidBeforeAnyWork) {
  const auto executor = LoadOn(TestCpu(), kTwoAdds);
  const std::vector<InputValue> inputs = {FloatTensor({3}, {1, 2, 3})};
  EXPECT_EQ(ReasonOf(PlacedRun::Place(executor, ViewsOf(inputs), {}).status()),
            ErrorReason::kGuardFailed);
  const auto asserting = LoadOn(TestCpu(), absl::StrCat(kTwoAdds, R"(
    steps { assertion { condition { value: 0 } message: "never" } } )"));
  Ledger ledger;
  const std::vector<InputValue> four = {FloatTensor({4}, {1, 2, 3, 4})};
  const absl::Status status =
      PlacedRun::Place(asserting, ViewsOf(four), {.allocator = &ledger})
          .status();
  EXPECT_THAT(status.message(), HasSubstr("assertion: never"));
  EXPECT_THAT(ledger.lines,
              ElementsAre("take 32", "take 16", "free 32", "free 16"));
}

TEST(PlacedRun, ASeedSlotIsWrittenOnceAndMayBeRewritten) {
  const auto executor = LoadOn(TestCpu(), R"(
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
    kernels { symbol: "test_seed_slot" label: "seed_0" }
    steps { launch { kernel: 0 args { buffer { buffer: 0 } } args { seed_slot {} }
      grid { value: 1 } grid { value: 1 } grid { value: 1 } block: 1 block: 1 block: 1 } }
    outputs { view { buffer: 0 dtype: DTYPE_INT64 } }
  )");
  auto run = PlacedRun::Place(executor, {}, {.seed = 11});
  ASSERT_TRUE(run.ok()) << run.status();
  const std::vector<OutputValue> outputs = (*run)->TakeOutputs();
  const void* const y = std::get<Tensor>(outputs[0]).data;
  ASSERT_TRUE((*run)->Put().ok());
  EXPECT_EQ(*static_cast<const uint64_t*>(y), 11);
  const uint64_t next = 12;
  std::memcpy((*run)->seed_slot(), &next, sizeof(next));
  ASSERT_TRUE((*run)->Put().ok());
  EXPECT_EQ(*static_cast<const uint64_t*>(y), 12);
}

}  // namespace
}  // namespace kiln

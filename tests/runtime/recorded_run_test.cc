// Runs that are placed, captured and replayed: on the CPU, which runs kernels
// and captures nothing, and on the null device, which captures and does copies
// and fills.
#include "runtime/recorded_run.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/null_device.h"
#include "runtime/placed_run.h"
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

// y = [x, x transposed], z = 7 for x: f32[2, 2], by copies and fills; y goes
// through the arena.
constexpr char kCopies[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_ARENA name: "t" bytes { value: 16 } }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  buffers { kind: KIND_OUTPUT name: "z" bytes { value: 8 } }
  arena_bytes { value: 16 }
  steps { copy {
    from { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    to { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 1 } strides { value: 2 } } } }
  steps { fill { to { buffer: 3 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } }
    bits: 0x40e00000 } }
  steps { copy {
    from { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } }
    to { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
  outputs { view { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
  outputs { view { buffer: 3 dtype: DTYPE_FLOAT32 sizes { value: 2 } strides { value: 1 } } }
)";

// y = a @ b for a, b: f32[2, 2], by a library; then z = y.
constexpr char kProduct[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
    strides { value: 2 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "a" }
  buffers { kind: KIND_OUTPUT name: "y" bytes { value: 16 } }
  buffers { kind: KIND_OUTPUT name: "z" bytes { value: 16 } }
  steps { extern_call { name: "mm"
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } }
    outputs { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 2 } sizes { value: 2 }
      strides { value: 2 } strides { value: 1 } } } }
  steps { copy {
    from { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } }
    to { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } } }
  outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 4 } strides { value: 1 } } }
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

// A null device whose products write 5 into their workspace and their result.
class Products final : public ExternLibrary {
 public:
  class Product final : public PreparedCall {
   public:
    explicit Product(Products& of) : of_(of) {}
    absl::Status Run(const ExternBuffers& buffers,
                     Stream stream) const override {
      of_.workspaces.push_back(buffers.workspace);
      if (of_.waits) {
        RETURN_IF_ERROR(of_.device->Synchronize(stream));
      }
      const StridedView from = {buffers.workspace, 4, {}, {}};
      RETURN_IF_ERROR(of_.device->Fill(buffers.workspace, 4,
                                       kWorkspaceBytes / 4, 5, stream));
      return of_.device->Copy(from, {buffers.operand[3], 4, {}, {}}, stream);
    }
    int64_t workspace_bytes() const override { return kWorkspaceBytes; }
    absl::string_view library() const override { return "products"; }

   private:
    Products& of_;
  };
  static constexpr int64_t kWorkspaceBytes = 4096;

  absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem&) override {
    return std::make_shared<Product>(*this);
  }

  Device* device = nullptr;
  bool waits = false;
  std::vector<void*> workspaces;
};

class RecordedRunTest : public testing::Test {
 protected:
  RecordedRunTest() { products_->device = device_.get(); }

  Tensor OnDevice(Tensor tensor) {
    tensor.device = DeviceKind::kNull;
    return tensor;
  }
  OpenedDevice Opened() { return {device_, products_}; }

  const std::shared_ptr<Device> device_ = MakeNullDevice();
  const std::shared_ptr<Products> products_ = std::make_shared<Products>();
  const std::shared_ptr<CachingAllocator> memory_ =
      std::make_shared<CachingAllocator>(device_->segments());
};

TEST_F(RecordedRunTest, AReplayReadsAndWritesWhereTheRecordingDid) {
  const auto executor = LoadOn(Opened(), kCopies);
  const Tensor x = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  auto run = RecordedRun::Record(executor, {x}, memory_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->size(), 3);
  const Tensor y = std::get<Tensor>((*run)->outputs()[0]);
  const Tensor z = std::get<Tensor>((*run)->outputs()[1]);
  EXPECT_THAT(FloatValues(y), ElementsAre(0, 0, 0, 0));  // nothing has run
  ASSERT_TRUE((*run)->Replay(nullptr).ok());
  EXPECT_THAT(FloatValues(y), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(FloatValues(z), ElementsAre(7, 7));
  static_cast<float*>(x.data)[1] = 9;
  static_cast<float*>(z.data)[1] = 0;
  ASSERT_TRUE((*run)->Replay(nullptr).ok());
  EXPECT_THAT(FloatValues(y), ElementsAre(1, 3, 9, 4));
  EXPECT_THAT(FloatValues(z), ElementsAre(7, 7));
}

TEST_F(RecordedRunTest, ResultsOutliveTheRecordingAndItsMemoryGoesWithThem) {
  const auto executor = LoadOn(Opened(), kCopies);
  const Tensor x = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  auto run = RecordedRun::Record(executor, {x}, memory_);
  ASSERT_TRUE(run.ok()) << run.status();
  // y and z; what was between is free again.
  EXPECT_EQ(memory_->figures().allocated_bytes, 2 * BlockPool::kUnit);
  ASSERT_TRUE((*run)->Replay(nullptr).ok());
  Tensor y = std::get<Tensor>((*run)->outputs()[0]);
  run->reset();
  EXPECT_EQ(memory_->figures().allocated_bytes, BlockPool::kUnit);
  EXPECT_THAT(FloatValues(y), ElementsAre(1, 3, 2, 4));
  y.owner.reset();
  EXPECT_EQ(memory_->figures().segment_bytes, 0);
  EXPECT_EQ(memory_->figures().unknown_frees, 0);
}

TEST_F(RecordedRunTest, RecordingsShareNoMemory) {
  const auto executor = LoadOn(Opened(), kCopies);
  const Tensor a = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  const Tensor b = OnDevice(FloatTensor({2, 2}, {5, 6, 7, 8}));
  auto first = RecordedRun::Record(executor, {a}, memory_);
  auto second = RecordedRun::Record(executor, {b}, memory_);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->Replay(nullptr).ok());
  ASSERT_TRUE((*second)->Replay(nullptr).ok());
  EXPECT_THAT(FloatValues(std::get<Tensor>((*first)->outputs()[0])),
              ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(FloatValues(std::get<Tensor>((*second)->outputs()[0])),
              ElementsAre(5, 7, 6, 8));
}

TEST_F(RecordedRunTest, AWorkspaceIsThePoolsAndGoesToWhatComesAfterTheCall) {
  const auto executor = LoadOn(Opened(), kProduct);
  const Tensor a = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  auto run = RecordedRun::Record(executor, {a}, memory_);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(products_->workspaces.size(), 1);
  const Tensor z = std::get<Tensor>((*run)->outputs()[1]);
  EXPECT_EQ(products_->workspaces[0], z.data);
  ASSERT_TRUE((*run)->Replay(nullptr).ok());
  int32_t found = 0;
  std::memcpy(&found, z.data, sizeof(found));
  EXPECT_EQ(found, 5);
  EXPECT_EQ(products_->workspaces.size(), 1);  // a replay asks no library
}

TEST_F(RecordedRunTest, ALibraryThatBreaksTheCaptureIsSaidAndTheNextWorks) {
  const auto executor = LoadOn(Opened(), kProduct);
  const Tensor a = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  products_->waits = true;
  const absl::Status broken =
      RecordedRun::Record(executor, {a}, memory_).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(broken.message(), HasSubstr("mm: synchronize: waits"));
  EXPECT_EQ(memory_->figures().segment_bytes, 0);
  products_->waits = false;
  auto run = RecordedRun::Record(executor, {a}, memory_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE((*run)->Replay(nullptr).ok());
}

TEST_F(RecordedRunTest, WithoutMemoryNothingIsLeft) {
  const auto executor = LoadOn(Opened(), kCopies);
  const auto little =
      std::make_shared<CachingAllocator>(device_->segments(), 1000);
  const Tensor x = OnDevice(FloatTensor({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(RecordedRun::Record(executor, {x}, little).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(little->figures().segment_bytes, 0);
}

TEST(RecordedRun, TheCpuRecordsNothingAndSaysSo) {
  const OpenedDevice cpu = TestCpu();
  const auto executor = LoadOn(cpu, kTwoAdds);
  const auto memory =
      std::make_shared<CachingAllocator>(cpu.device->segments());
  const Tensor x = FloatTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(RecordedRun::Record(executor, {x}, memory).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace kiln

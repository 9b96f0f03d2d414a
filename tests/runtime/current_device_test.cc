// A call leaves the thread on the device that it came with: what CUDA's runtime,
// and so PyTorch, takes for the current one. And what others may do to a device:
// reset it. Over a driver of host memory with two
// devices; tests/gpu has the same on two GPUs.
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/caching_allocator.h"
#include "runtime/cuda_device.h"
#include "runtime/plan_graphs/plan_graphs.h"
#include "runtime/shared_library.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

// What the fake driver tells of the calling thread.
class FakeThread {
 public:
  FakeThread()
      : driver_(*SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder})) {
    EXPECT_TRUE(driver_.Find("cuCtxGetCurrent", current_).ok());
    EXPECT_TRUE(driver_.Find("fakeLastUsedContext", last_used_).ok());
    EXPECT_TRUE(driver_.Find("fakeContextChanges", changes_).ok());
    EXPECT_TRUE(driver_.Find("fakeResetDevices", reset_).ok());
  }
  CUcontext current() const {
    CUcontext context = nullptr;
    EXPECT_EQ(current_(&context), 0);
    return context;
  }
  CUcontext last_used() const { return last_used_(); }
  int changes() const { return changes_(); }
  void ResetDevices() const { reset_(); }

 private:
  const SharedLibrary driver_;
  CUresult (*current_)(CUcontext*) = nullptr;
  CUcontext (*last_used_)() = nullptr;
  int (*changes_)() = nullptr;
  void (*reset_)() = nullptr;
};

// A context as a caller has it: that of device 1, or none.
class CurrentDeviceOfACaller : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    other_ = *CudaDevice::Open(1, {kFakeFolder});
    if (GetParam()) held_.emplace(*other_->MakeCurrent());
    before_ = thread_.current();
    EXPECT_EQ(before_ != nullptr, GetParam());
    fake_ = Fake();
    const CurrentDevice current = *fake_.device->MakeCurrent();
    ours_ = thread_.current();
    EXPECT_NE(ours_, before_);
  }

  // That what was called last was about the device, and left the caller his own.
  void ExpectDoneHere(absl::string_view what) {
    EXPECT_EQ(thread_.last_used(), ours_) << what;
    EXPECT_EQ(thread_.current(), before_) << what;
  }

  const FakeThread thread_;
  std::shared_ptr<CudaDevice> other_;
  std::optional<CurrentDevice> held_;
  CUcontext before_ = nullptr;
  CUcontext ours_ = nullptr;
  OpenedDevice fake_;
};
INSTANTIATE_TEST_SUITE_P(FakeCuda, CurrentDeviceOfACaller, testing::Bool());

TEST_P(CurrentDeviceOfACaller, EveryCallGivesTheCallerHisOwnBack) {
  Device& device = *fake_.device;
  ExpectDoneHere("opening");
  auto stream = *device.MakeStream();
  ExpectDoneHere("making a stream");
  auto marker = *device.MakeMarker();
  ExpectDoneHere("making a marker");
  ASSERT_TRUE(marker->Record(stream->get()).ok());
  ExpectDoneHere("recording a marker");
  ASSERT_TRUE(marker->Wait(stream->get()).ok());
  ExpectDoneHere("waiting for a marker");
  for (Allocator* const allocator : {&device.allocator(), &device.segments()}) {
    void* const memory = *allocator->Allocate(64, stream->get());
    ExpectDoneHere("allocating");
    allocator->Free(memory, 64, stream->get());
    ExpectDoneHere("freeing");
  }
  void* const memory = *device.allocator().Allocate(64, nullptr);
  int32_t number = 7;
  ASSERT_TRUE(device.Upload(&number, memory, 4, nullptr).ok());
  ExpectDoneHere("uploading");
  ASSERT_TRUE(device.Download(memory, &number, 4, nullptr).ok());
  ExpectDoneHere("downloading");
  ASSERT_TRUE(device.Synchronize(nullptr).ok());
  ExpectDoneHere("waiting");
  ASSERT_TRUE(device.BeginCapture(stream->get()).ok());
  ExpectDoneHere("beginning a capture");
  EXPECT_TRUE(device.IsCaptured(stream->get()));
  ExpectDoneHere("asking for a capture");
  ASSERT_TRUE(device.Fill(memory, 8, 2, 1, stream->get()).ok());
  ExpectDoneHere("filling");
  auto graph = *device.EndCapture(stream->get());
  ExpectDoneHere("ending a capture");
  ASSERT_TRUE(graph->Launch(stream->get()).ok());
  ExpectDoneHere("launching a graph");
  graph.reset();
  ExpectDoneHere("dropping a graph");
  stream.reset();
  ExpectDoneHere("dropping a stream");
  device.allocator().Free(memory, 64, nullptr);
}

TEST_P(CurrentDeviceOfACaller, LoadsRunsAndFreesGiveTheCallerHisOwnBack) {
  const wire::SignedArtifact sealed = Seal(AddArtifact());
  auto executor = *Load(sealed, fake_);
  ExpectDoneHere("loading");
  Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
  x.device = DeviceKind::kCuda;
  const int before_run = thread_.changes();
  auto outputs = *executor->Run({{x}}, {});
  ExpectDoneHere("running");
  // There and back, whatever the number of steps.
  EXPECT_EQ(thread_.changes() - before_run, 2);
  outputs.clear();
  ExpectDoneHere("freeing results");
  executor.reset();
  ExpectDoneHere("unloading");
}

TEST_P(CurrentDeviceOfACaller, CallsOfATreeGiveTheCallerHisOwnBack) {
  const auto executor = *Load(Seal(AddArtifact()), fake_);
  auto graphs = *PlanGraphs::Make(
      fake_.device,
      std::make_shared<CachingAllocator>(fake_.device->segments()));
  const int plan = graphs->Add(executor, {});
  Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
  x.device = DeviceKind::kCuda;
  const auto stream = *fake_.device->MakeStream();
  int last = 0;
  for (const char* const what : {"warming up", "recording", "replaying"}) {
    graphs->BeginStep();
    const int before = thread_.changes();
    const auto outputs = graphs->Run(plan, {x}, {.stream = stream->get()});
    ASSERT_TRUE(outputs.ok()) << what << ": " << outputs.status();
    EXPECT_EQ(FloatValues(std::get<Tensor>((*outputs)[0])),
              (std::vector<float>{6, 9, 7, 10, 8, 11}));
    ExpectDoneHere(what);
    last = thread_.changes() - before;
  }
  EXPECT_EQ(last, 2);  // a replay's
  graphs.reset();
  ExpectDoneHere("ending the tree");
}

// What lives when the device is reset, and goes after it.
struct Survivors {
  OpenedDevice device = Fake();
  std::shared_ptr<const Executor> executor = *Load(Seal(AddArtifact()), device);
  std::vector<OutputValue> results;
  std::unique_ptr<PlanGraphs> graphs = *PlanGraphs::Make(
      device.device,
      std::make_shared<CachingAllocator>(device.device->segments()));
  int plan = graphs->Add(executor, {});
  std::unique_ptr<Marker> marker = *device.device->MakeMarker();
  void* memory = *device.device->allocator().Allocate(64, nullptr);
  void* segment = *device.device->segments().Allocate(64, nullptr);
};

TEST(ResetDevice, CallsSayThatItIsAndNothingOfItIsUsedOrDestroyed) {
  const FakeThread thread;
  Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
  x.device = DeviceKind::kCuda;
  std::optional<Survivors> left(std::in_place);
  Device& device = *left->device.device;
  left->results = *left->executor->Run({{x}}, {});
  for (int i = 0; i < 3; ++i) {  // the last one is a replay
    ASSERT_TRUE(left->graphs->Run(left->plan, {x}, {}).ok());
  }

  thread.ResetDevices();
  for (const absl::Status& status :
       {left->executor->Run({{x}}, {}).status(),
        left->graphs->Run(left->plan, {x}, {}).status(),
        left->marker->Record(nullptr),
        device.allocator().Allocate(64, nullptr).status(),
        Load(Seal(AddArtifact()), left->device).status()}) {
    EXPECT_EQ(ReasonOf(status), ErrorReason::kNoDevice);
    EXPECT_THAT(status.message(), testing::HasSubstr("has reset the device"));
  }
  device.allocator().Free(left->memory, 64, nullptr);
  device.segments().Free(left->segment, 64, nullptr);
  left.reset();
  EXPECT_EQ(thread.last_used(), nullptr);

  const OpenedDevice anew = Fake();
  EXPECT_TRUE((*Load(Seal(AddArtifact()), anew))->Run({{x}}, {}).ok());
}

TEST(CurrentDevice, AThreadThatIsOnTheDeviceIsNeverMoved) {
  const OpenedDevice fake = Fake();
  const CurrentDevice current = *fake.device->MakeCurrent();
  const FakeThread thread;
  const int before = thread.changes();
  const auto executor = *Load(Seal(AddArtifact()), fake);
  Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
  x.device = DeviceKind::kCuda;
  ASSERT_TRUE(executor->Run({{x}}, {}).ok());
  EXPECT_EQ(thread.changes(), before);
}

}  // namespace
}  // namespace kiln

// Executors on a GPU, with plans that need no compiled kernel. Skipped without
// one. The corpus covers the rest.
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "runtime/caching_allocator.h"
#include "runtime/cuda_device.h"
#include "runtime/device_target.h"
#include "runtime/executor.h"
#include "runtime/placed_run.h"
#include "runtime/plan_graphs/plan_graphs.h"
#include "runtime/shared_library.h"
#include "tests/gpu/cuda_opener.h"

namespace kiln {
namespace {

constexpr int64_t kSide = 256;

// z = (x @ w)^T through the arena, x and w: f32[256, 256].
constexpr char kPlan[] = R"(
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
    strides { value: 256 } strides { value: 1 } } }
  inputs { tensor { dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
    strides { value: 256 } strides { value: 1 } } }
  buffers { kind: KIND_INPUT index: 0 name: "x" }
  buffers { kind: KIND_INPUT index: 1 name: "w" }
  buffers { kind: KIND_ARENA name: "y" bytes { value: 262144 } }
  buffers { kind: KIND_OUTPUT name: "z" bytes { value: 262144 } }
  arena_bytes { value: 262144 }
  steps { extern_call { name: "mm"
    inputs { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
      strides { value: 256 } strides { value: 1 } }
    inputs { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
      strides { value: 256 } strides { value: 1 } }
    outputs { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
      strides { value: 256 } strides { value: 1 } } } }
  steps { copy {
    from { buffer: 2 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
      strides { value: 256 } strides { value: 1 } }
    to { buffer: 3 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
      strides { value: 1 } strides { value: 256 } } } }
  outputs { view { buffer: 3 dtype: DTYPE_FLOAT32 sizes { value: 256 } sizes { value: 256 }
    strides { value: 256 } strides { value: 1 } } }
)";

absl::StatusOr<std::shared_ptr<const Executor>> LoadPlan(
    const OpenedDevice& on) {
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  *artifact.mutable_target() = TargetOf(on.device->traits());
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      kPlan, artifact.mutable_compiled()->mutable_plan()));
  wire::SignedArtifact sealed;
  sealed.set_artifact(artifact.SerializeAsString());
  sealed.set_xxh3(Xxh3_64(sealed.artifact()));
  ASSIGN_OR_RETURN(
      ArtifactView view,
      ArtifactView::Parse(sealed, {{}, TrustPolicy::Unsigned::kAllow},
                          on.device->traits()));
  ASSIGN_OR_RETURN(auto loaded, LoadedArtifact::Load(std::move(view), on));
  return Executor::Create(std::move(loaded));
}

// A square of one value on the device.
Tensor Square(Device& device, float value) {
  const std::vector<float> host(kSide * kSide, value);
  const int64_t bytes = kSide * kSide * sizeof(float);
  const auto memory = device.allocator().Allocate(bytes, nullptr);
  EXPECT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(device.Upload(host.data(), *memory, bytes, nullptr).ok());
  Tensor tensor;
  tensor.data = *memory;
  tensor.storage = *memory;
  tensor.sizes = {kSide, kSide};
  tensor.strides = {kSide, 1};
  tensor.device = DeviceKind::kCuda;
  tensor.owner = std::shared_ptr<void>(*memory, [&device, bytes](void* m) {
    device.allocator().Free(m, bytes, nullptr);
  });
  return tensor;
}

// A stream that does not wait for the default one.
Stream NewStream(const CudaDevice& device) {
  const auto library = SharedLibrary::Open({"libcuda.so.1"}, {});
  EXPECT_TRUE(library.ok()) << library.status();
  CUresult (*create)(CUstream*, unsigned) = nullptr;
  EXPECT_TRUE(library->Find("cuStreamCreate", create).ok());
  const absl::StatusOr<CurrentDevice> current = device.MakeCurrent();
  EXPECT_TRUE(current.ok()) << current.status();
  constexpr unsigned kNonBlocking = 1;
  CUstream stream = nullptr;
  EXPECT_EQ(create(&stream, kNonBlocking), 0);
  return stream;
}

TEST(CudaExecutor, ThreadsAndStreamsRunAtOnceWithoutMixingTheirArenas) {
  const OpenedDevice cuda = OpenCudaOrNull();
  if (cuda.device == nullptr) GTEST_SKIP() << "no GPU here";
  auto& device = static_cast<CudaDevice&>(*cuda.device);
  const auto executor = LoadPlan(cuda);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const Tensor ones = Square(device, 1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = Square(device, static_cast<float>(t));
      // Two streams a thread, in turn: arenas change streams too.
      const Stream streams[] = {NewStream(device), NewStream(device)};
      std::vector<float> host(kSide * kSide);
      for (int run = 0; run < 100; ++run) {
        const Stream stream = streams[run % 2];
        const auto outputs = (*executor)->Run({{x, ones}}, {.stream = stream});
        if (!outputs.ok()) {
          ADD_FAILURE() << outputs.status();
          return;
        }
        const Tensor& z = std::get<Tensor>((*outputs)[0]);
        EXPECT_TRUE(device
                        .Download(z.data, host.data(),
                                  kSide * kSide * sizeof(float), stream)
                        .ok());
        for (const float value : host) wrong += value != kSide * t;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// The elements of a square, if all are the same; else -1.
float ValueOf(const Tensor& square, Device& device) {
  std::vector<float> host(kSide * kSide);
  EXPECT_TRUE(
      device.Download(square.data, host.data(), host.size() * 4, nullptr).ok());
  for (const float value : host) {
    if (value != host[0]) return -1;
  }
  return host[0];
}

TEST(CudaExecutor, GraphsReplayOnAnyStreamWhatTheirInputsHoldThen) {
  const OpenedDevice cuda = OpenCudaOrNull();
  if (cuda.device == nullptr) GTEST_SKIP() << "no GPU here";
  Device& device = *cuda.device;
  const auto executor = LoadPlan(cuda);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const Tensor ones = Square(device, 1);
  const auto memory = std::make_shared<CachingAllocator>(device.segments());
  auto graphs = PlanGraphs::Make(cuda.device, memory);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const int plan = (*graphs)->Add(*executor, {1});
  int due = 2;
  for (int turn = 0; turn < 3; ++turn) {
    // Goes while its last replay may still run.
    const auto stream = device.MakeStream();
    ASSERT_TRUE(stream.ok()) << stream.status();
    for (const Stream on : {Stream{}, (*stream)->get()}) {
      for (int times = 0; times < 50; ++times, ++due) {
        const Tensor x = Square(device, static_cast<float>(due));
        (*graphs)->BeginStep();
        const auto z = (*graphs)->Run(plan, {x, ones}, {.stream = on});
        ASSERT_TRUE(z.ok()) << z.status();
        if (times % 5 != 0) continue;
        ASSERT_TRUE(device.Synchronize(on).ok());
        ASSERT_EQ(ValueOf(std::get<Tensor>((*z)[0]), device),
                  static_cast<float>(kSide * due));
      }
    }
  }
  EXPECT_EQ((*graphs)->tree().counters().recordings, 1);
  EXPECT_GT(memory->figures().segment_bytes, 0);
  graphs->reset();
  EXPECT_EQ(memory->figures().segment_bytes, 0);
}

TEST(CudaExecutor, ARunIsPlacedOnceAndPutOftenWithEqualResults) {
  const OpenedDevice cuda = OpenCudaOrNull();
  if (cuda.device == nullptr) GTEST_SKIP() << "no GPU here";
  const auto executor = LoadPlan(cuda);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const Tensor x = Square(*cuda.device, 3);
  const std::vector<InputValue> inputs = {x, Square(*cuda.device, 1)};
  CachingAllocator memory(cuda.device->segments());
  auto run =
      PlacedRun::Place(*executor, ViewsOf(inputs), {.allocator = &memory});
  ASSERT_TRUE(run.ok()) << run.status();
  const auto outputs = (*run)->TakeOutputs();
  for (int times = 0; times < 3; ++times) {
    ASSERT_TRUE((*run)->Put().ok());
    EXPECT_EQ(ValueOf(std::get<Tensor>(outputs[0]), *cuda.device), kSide * 3);
  }
}

// A seed's slot is written by a fill of 8 bytes whose halves differ.
TEST(CudaExecutor, EightBytesAreFilledInOrderWithReplays) {
  const OpenedDevice cuda = OpenCudaOrNull();
  if (cuda.device == nullptr) GTEST_SKIP() << "no GPU here";
  Device& device = *cuda.device;
  const auto slot = device.allocator().Allocate(16, nullptr);
  const auto stream = device.MakeStream();
  ASSERT_TRUE(slot.ok() && stream.ok());
  void* const copy = static_cast<char*>(*slot) + 8;
  ASSERT_TRUE(device.BeginCapture((*stream)->get()).ok());
  ASSERT_TRUE(
      device.Copy({*slot, 8, {}, {}}, {copy, 8, {}, {}}, (*stream)->get())
          .ok());
  const auto graph = device.EndCapture((*stream)->get());
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (uint64_t seed = 1; seed < 200; ++seed) {
    const uint64_t bits = seed << 40 | seed;
    ASSERT_TRUE(device.Fill(*slot, 8, 1, bits, nullptr).ok());
    ASSERT_TRUE((*graph)->Launch(nullptr).ok());
    uint64_t found = 0;
    ASSERT_TRUE(device.Download(copy, &found, 8, nullptr).ok());
    ASSERT_EQ(found, bits);
  }
  device.allocator().Free(*slot, 16, nullptr);
}

// What the thread's calls are about.
CUcontext CurrentContext(const CudaDriver& driver) {
  CUcontext context = nullptr;
  EXPECT_EQ(driver.cuCtxGetCurrent(&context), 0);
  return context;
}

// Loads, runs, records and replays on the second GPU.
void WorkOnTheSecond(const CudaDriver& driver) {
  const OpenedDevice second = OpenSecondCudaOrNull();
  Device& device = *second.device;
  const CUcontext before = CurrentContext(driver);
  const auto executor = LoadPlan(second);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_EQ(CurrentContext(driver), before);
  Tensor x = Square(device, 3), ones = Square(device, 1);
  x.device_ordinal = ones.device_ordinal = 1;
  {
    const auto outputs = (*executor)->Run({{x, ones}}, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(CurrentContext(driver), before);
    EXPECT_EQ(ValueOf(std::get<Tensor>((*outputs)[0]), device), kSide * 3);
  }
  auto graphs = PlanGraphs::Make(
      second.device, std::make_shared<CachingAllocator>(device.segments()));
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const int plan = (*graphs)->Add(*executor, {});
  for (int i = 0; i < 3; ++i) {  // warmed up, recorded and replayed
    (*graphs)->BeginStep();
    const auto z = (*graphs)->Run(plan, {x, ones}, {});
    ASSERT_TRUE(z.ok()) << z.status();
    EXPECT_EQ(CurrentContext(driver), before);
    EXPECT_EQ(ValueOf(std::get<Tensor>((*z)[0]), device), kSide * 3);
  }
  graphs->reset();
  EXPECT_EQ(CurrentContext(driver), before);
}

TEST(CudaExecutor, WorkOnAnotherGpuLeavesTheThreadOnItsOwn) {
  const OpenedDevice first = OpenCudaOrNull();
  if (OpenSecondCudaOrNull().device == nullptr)
    GTEST_SKIP() << "no two GPUs here";
  const auto& device = static_cast<const CudaDevice&>(*first.device);
  {
    const absl::StatusOr<CurrentDevice> current = device.MakeCurrent();
    ASSERT_TRUE(current.ok()) << current.status();
    WorkOnTheSecond(device.driver());
  }
  std::thread([&] { WorkOnTheSecond(device.driver()); }).join();
}

TEST(CudaExecutor, ATracedRunWaitsForEachStep) {
  const OpenedDevice cuda = OpenCudaOrNull();
  if (cuda.device == nullptr) GTEST_SKIP() << "no GPU here";
  const auto executor = LoadPlan(cuda);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const Tensor x = Square(*cuda.device, 2);
  Trace trace;
  ASSERT_TRUE((*executor)->Run({{x, x}}, {.trace = &trace}).ok());
  const auto events = trace.events();
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0].name, "mm");
  EXPECT_EQ(events[1].name, "copy");
  EXPECT_EQ(events[2].name, "run");
}

}  // namespace
}  // namespace kiln

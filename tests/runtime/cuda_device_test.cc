// CudaDevice over a driver of host memory (fake_cuda_driver.cc): what needs no
// GPU to be seen. tests/gpu has the rest.
#include "runtime/cuda_device.h"

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "runtime/captures_under_way.h"
#include "runtime/shared_library.h"
#include "tests/runtime/device_suite.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::HasSubstr;

std::shared_ptr<Device> FakeDevice() { return Fake().device; }

INSTANTIATE_TEST_SUITE_P(FakeCuda, DeviceConformance,
                         testing::Values(&FakeDevice));
INSTANTIATE_TEST_SUITE_P(FakeCuda, CaptureConformance,
                         testing::Values(&FakeDevice));

TEST(CudaDevice, RunsAPlanOnAnyThreadWithItsContextCurrent) {
  const OpenedDevice fake = Fake();
  EXPECT_EQ(fake.device->traits().name, "fake GPU");
  EXPECT_EQ(fake.device->traits().compute_major, 9);
  const auto executor = Load(Seal(AddArtifact()), fake);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const auto run = [&] {
    Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
    x.device = DeviceKind::kCuda;
    int first = 0;
    int second = 0;
    for (Stream stream : {Stream{&first}, Stream{&second}, Stream{}}) {
      const auto outputs = (*executor)->Run({{x}}, {.stream = stream});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ(FloatValues(std::get<Tensor>((*outputs)[0])),
                (std::vector<float>{6, 9, 7, 10, 8, 11}));
    }
  };
  run();
  std::thread(run).join();  // a thread that CUDA has never seen
}

TEST(CudaDevice, AnInputOnTheHostIsRefused) {
  const auto executor = Load(Seal(AddArtifact()), Fake());
  ASSERT_TRUE(executor.ok()) << executor.status();
  const Tensor x = FloatTensor({6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(ReasonOf((*executor)->Run({{x}}, {}).status()),
            ErrorReason::kGuardFailed);
}

TEST(CudaDevice, AKernelThatIsNotThereIsCorrupt) {
  wire::Artifact artifact = AddArtifact();
  artifact.mutable_compiled()->mutable_plan()->mutable_kernels(0)->set_symbol(
      "absent");
  const absl::Status status = Load(Seal(artifact), Fake()).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("kernel absent"));
}

// How many blocks a launch of `grid` is given, its kernel bounded to
// `blocks_per_multiprocessor`. `more`: of the launch.
absl::StatusOr<float> BlocksOf(int64_t grid, int blocks_per_multiprocessor,
                               absl::string_view more = "") {
  wire::Artifact artifact = MakeTestArtifact(absl::StrCat(
      R"(buffers { kind: KIND_OUTPUT name: "y" bytes { value: 4 } }
         kernels { symbol: "test_blocks" label: "blocks_0" }
         steps { launch { kernel: 0 args { buffer { buffer: 0 } }
           block: 32 block: 1 block: 1 grid { value: )",
      grid, R"( } grid { value: 1 } grid { value: 1 }
           blocks_per_multiprocessor: )",
      blocks_per_multiprocessor, " ", more, R"( } }
         outputs { view { buffer: 0 dtype: DTYPE_FLOAT32 sizes { value: 1 }
           strides { value: 1 } } })"));
  artifact.mutable_target()->mutable_cuda()->set_arch("sm_90");
  ASSIGN_OR_RETURN(const auto executor, Load(Seal(artifact), Fake()));
  ASSIGN_OR_RETURN(const auto outputs, executor->Run({}, {}));
  return FloatValues(std::get<Tensor>(outputs[0]))[0];
}

// The fake has four multiprocessors.
TEST(CudaDevice, AGridIsSizedToTheDevice) {
  EXPECT_EQ(*BlocksOf(7, 8), 7);
  EXPECT_EQ(*BlocksOf(1000, 8), 32);
  EXPECT_EQ(*BlocksOf(1000, 0), 1000);
}

TEST(CudaDevice, AGridThatIsTooLargeIsRefused) {
  const absl::Status status = BlocksOf(int64_t{1} << 32, 0).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(status.message(),
              HasSubstr("blocks_0: grid extent 0: found 4294967296"));
  EXPECT_EQ(*BlocksOf(int64_t{1} << 32, 1), 4);
}

// x of s0 elements; the second launch has 2^26 blocks for each.
TEST(CudaDevice, AGridThatASizeMakesTooLargeIsRefusedBeforeAnyLaunch) {
  const auto driver = SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder});
  ASSERT_TRUE(driver.ok()) << driver.status();
  int (*launches)() = nullptr;
  ASSERT_TRUE(driver->Find("fakeLaunches", launches).ok());
  wire::Artifact artifact = MakeTestArtifact(R"(
    symbols { name: "s0" source { kind: KIND_SIZE input: 0 dim: 0 } min: 1 max: 64 }
    inputs { tensor { dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL value: 0 } }
      strides { value: 1 } } }
    buffers { kind: KIND_INPUT index: 0 name: "x" }
    buffers { kind: KIND_OUTPUT name: "y" bytes { value: 4 } }
    kernels { symbol: "test_blocks" label: "first_0" }
    kernels { symbol: "test_blocks" label: "second_1" }
    steps { launch { kernel: 0 args { buffer { buffer: 1 } }
      block: 32 block: 1 block: 1
      grid { value: 1 } grid { value: 1 } grid { value: 1 } } }
    steps { launch { kernel: 1 args { buffer { buffer: 1 } }
      block: 32 block: 1 block: 1
      grid { code { op: SYM_OP_SYMBOL value: 0 }
        code { op: SYM_OP_CONSTANT value: 67108864 } code { op: SYM_OP_MUL } }
      grid { value: 1 } grid { value: 1 } } }
    outputs { view { buffer: 1 dtype: DTYPE_FLOAT32 sizes { value: 1 }
      strides { value: 1 } } })");
  artifact.mutable_target()->mutable_cuda()->set_arch("sm_90");
  const auto executor = Load(Seal(artifact), Fake());
  ASSERT_TRUE(executor.ok()) << executor.status();
  const auto run = [&](int64_t size) {
    Tensor x = FloatTensor({size}, std::vector<float>(size));
    x.device = DeviceKind::kCuda;
    return (*executor)->Run({{x}}, {}).status();
  };
  int before = launches();
  EXPECT_TRUE(run(31).ok());
  EXPECT_EQ(launches() - before, 2);
  before = launches();
  const absl::Status status = run(64);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(status.message(), HasSubstr("second_1: grid extent 0: found "
                                          "4294967296, expected 1 to 2147483647"));
  EXPECT_EQ(launches() - before, 0);
}

TEST(CudaDevice, ASegmentGetsWhatPlainRunsHaveFreed) {
  const auto driver = SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder});
  ASSERT_TRUE(driver.ok()) << driver.status();
  void (*set_room)(int64_t) = nullptr;
  ASSERT_TRUE(driver->Find("fakeSetRoom", set_room).ok());
  const OpenedDevice fake = Fake();
  Allocator& plain = fake.device->allocator();
  Allocator& segments = fake.device->segments();
  set_room(1000);
  const auto run = plain.Allocate(800, nullptr);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(segments.Allocate(800, nullptr).status().code(),
            absl::StatusCode::kResourceExhausted);
  plain.Free(*run, 800, nullptr);
  const auto segment = segments.Allocate(800, nullptr);
  EXPECT_TRUE(segment.ok()) << segment.status();
  if (segment.ok()) segments.Free(*segment, 800, nullptr);
  set_room(int64_t{1} << 40);
}

class ManyCopies : public testing::Test {
 protected:
  ManyCopies() {
    const auto driver = SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder});
    EXPECT_TRUE(driver.ok()) << driver.status();
    EXPECT_TRUE(driver->Find("fakeLaunches", launches_).ok());
    EXPECT_TRUE(driver->Find("fakeCopies", copies_).ok());
    EXPECT_TRUE(driver->Find("fakeTakePtx", take_ptx_).ok());
  }
  ~ManyCopies() override { take_ptx_(1); }

  // Launches and copies by the driver that it takes for `count` numbers.
  std::pair<int, int> PutFor(Device& device, int count) {
    std::vector<int64_t> from(count), to(count);
    std::iota(from.begin(), from.end(), 1);
    std::vector<DenseCopy> copies;
    for (int i = 0; i < count; ++i) copies.push_back({&from[i], &to[i], 8});
    const int launches = launches_(), driver_copies = copies_();
    EXPECT_TRUE(device.CopyAll(copies, nullptr).ok());
    EXPECT_EQ(to, from);
    return {launches_() - launches, copies_() - driver_copies};
  }

  int (*launches_)() = nullptr;
  int (*copies_)() = nullptr;
  void (*take_ptx_)(int) = nullptr;
};

TEST_F(ManyCopies, AreOneLaunch) {
  const OpenedDevice fake = Fake();
  EXPECT_EQ(PutFor(*fake.device, 1), std::pair(0, 1));
  EXPECT_EQ(PutFor(*fake.device, 2), std::pair(1, 0));
  EXPECT_EQ(PutFor(*fake.device, 8), std::pair(1, 0));
  EXPECT_EQ(PutFor(*fake.device, 127), std::pair(1, 0));
  EXPECT_EQ(PutFor(*fake.device, 128), std::pair(2, 0));
}

TEST_F(ManyCopies, AreCopiesOfTheDriverWhereItCompilesNoKernel) {
  std::string log;
  ASSERT_TRUE(ConfigureLog({.sink = [&](absl::string_view line) {
                log.append(line.data(), line.size());
              }}).ok());
  take_ptx_(0);
  const OpenedDevice fake = Fake();
  EXPECT_EQ(PutFor(*fake.device, 20), std::pair(0, 20));
  EXPECT_THAT(log, HasSubstr("cuda.copies_one_by_one"));
  log.clear();
  EXPECT_EQ(PutFor(*fake.device, 3), std::pair(0, 3));
  EXPECT_EQ(log, "");
  ASSERT_TRUE(ConfigureLog({}).ok());
}

TEST(CudaDevice, WhatIsDroppedIsUnloadedByTheNextLoadOutsideCaptures) {
  const auto driver = SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder});
  ASSERT_TRUE(driver.ok()) << driver.status();
  int (*loaded)() = nullptr;
  ASSERT_TRUE(driver->Find("fakeLoadedModules", loaded).ok());
  const int before = loaded();
  const OpenedDevice fake = Fake();
  const wire::SignedArtifact sealed = Seal(AddArtifact());
  auto dropped = *Load(sealed, fake);
  const auto kept = *Load(sealed, fake);
  dropped.reset();
  EXPECT_EQ(loaded(), before + 2);
  {
    const CaptureUnderWay capture;
    dropped = *Load(sealed, fake);
    dropped.reset();
    EXPECT_EQ(loaded(), before + 3);
  }
  const auto next = *Load(sealed, fake);
  EXPECT_EQ(loaded(), before + 2);
}

TEST(CudaDevice, ALaunchAsksForClustersAndToBeginBeforeTheOneBeforeEnds) {
  const auto driver = SharedLibrary::Open({"libcuda.so.1"}, {kFakeFolder});
  ASSERT_TRUE(driver.ok()) << driver.status();
  unsigned (*cluster)() = nullptr;
  int (*is_programmatic)() = nullptr;
  ASSERT_TRUE(driver->Find("fakeLastCluster", cluster).ok());
  ASSERT_TRUE(driver->Find("fakeLastIsProgrammatic", is_programmatic).ok());
  EXPECT_EQ(*BlocksOf(8, 0), 8);
  EXPECT_EQ(cluster(), 0);
  EXPECT_EQ(is_programmatic(), 0);
  EXPECT_EQ(*BlocksOf(8, 0, "cluster: 4"), 8);
  EXPECT_EQ(cluster(), 4);
  EXPECT_EQ(is_programmatic(), 0);
  EXPECT_EQ(*BlocksOf(6, 0, "cluster: 2 programmatic_dependent_launch: true"),
            6);
  EXPECT_EQ(cluster(), 2);
  EXPECT_EQ(is_programmatic(), 1);
  // Blocks that are no whole clusters: the driver's own refusal, by name.
  EXPECT_THAT(
      BlocksOf(6, 0, "cluster: 4").status().message(),
      HasSubstr("blocks_0: cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE"));
}

// y = the sum of `numbers`, by launches of one kernel that takes them all.
wire::Artifact ArgumentsArtifact(const std::vector<int64_t>& numbers,
                                 const std::vector<uint32_t>& shared_bytes,
                                 uint32_t threads = 32) {
  std::string launches;
  for (const uint32_t bytes : shared_bytes) {
    absl::StrAppend(&launches, "steps { launch { kernel: 0 ");
    for (const int64_t number : numbers) {
      absl::StrAppend(&launches, "args { scalar { value: ", number, " } } ");
    }
    absl::StrAppend(&launches,
                    "args { buffer { buffer: 0 } } shared_bytes: ", bytes,
                    " block: ", threads,
                    " block: 1 block: 1 grid { value: 1 } grid { value: 1 } "
                    "grid { value: 1 } } } ");
  }
  wire::Artifact artifact = MakeTestArtifact(absl::StrCat(
      R"(buffers { kind: KIND_OUTPUT name: "y" bytes { value: 8 } }
         kernels { symbol: "test_arguments" label: "sum_0" }
         steps { fill { to { buffer: 0 dtype: DTYPE_INT64 sizes { value: 1 }
           strides { value: 1 } } } } )",
      launches,
      R"(outputs { view { buffer: 0 dtype: DTYPE_INT64 sizes { value: 1 }
           strides { value: 1 } } })"));
  artifact.mutable_target()->mutable_cuda()->set_arch("sm_90");
  return artifact;
}

absl::StatusOr<int64_t> SumOf(const wire::Artifact& artifact) {
  ASSIGN_OR_RETURN(const auto executor, Load(Seal(artifact), Fake()));
  ASSIGN_OR_RETURN(const auto outputs, executor->Run({}, {}));
  return *static_cast<const int64_t*>(std::get<Tensor>(outputs[0]).data);
}

TEST(CudaDevice, ALaunchTakesAnyNumberOfArguments) {
  for (const int64_t count : {0, 1, 2, 199, 510}) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(i * i - 5);
    const auto sum = SumOf(ArgumentsArtifact(numbers, {0}));
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, std::accumulate(numbers.begin(), numbers.end(), int64_t{0}))
        << count;
  }
}

TEST(CudaDevice, AKernelWithoutArgumentsIsLaunched) {
  wire::Artifact artifact = ArgumentsArtifact({}, {0});
  artifact.mutable_compiled()
      ->mutable_plan()
      ->mutable_steps(1)
      ->mutable_launch()
      ->clear_args();
  const auto sum = SumOf(artifact);
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 0);
}

// Asked for once, the most of all launches, whichever comes first.
TEST(CudaDevice, LaunchesOfOneKernelHaveTheSharedMemoryThatEachAsksFor) {
  const auto sum =
      SumOf(ArgumentsArtifact({7}, {50000, 100, 200000, 0, 60000}));
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, 5 * 7);
}

TEST(CudaDevice, MoreSharedMemoryThanABlockHasIsRefusedWhenItIsLoaded) {
  for (const uint32_t bytes : {99'999'999u, 4'000'000'000u}) {
    const absl::Status status =
        Load(Seal(ArgumentsArtifact({1}, {16, bytes})), Fake()).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
    EXPECT_THAT(
        status.message(),
        HasSubstr(absl::StrCat("out of resource: test_arguments: a block "
                               "needs ",
                               bytes, " bytes")));
  }
}

TEST(CudaDevice, ABlockThatNeedsTooMuchIsRefusedByName) {
  const absl::Status status = SumOf(ArgumentsArtifact({1}, {0}, 1024)).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(status.message(),
              HasSubstr("sum_0: out of resource: a block of 1024 x 1 x 1"));
}

TEST(CudaDevice, AnOrdinalThatIsNotThereIsNoDevice) {
  const absl::Status status = CudaDevice::Open(3, {kFakeFolder}).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kNoDevice);
  EXPECT_THAT(status.message(), HasSubstr("cuda:3"));
}

TEST(CudaDevice, FillsWordsWhoseHalvesDiffer) {
  const OpenedDevice fake = Fake();
  const auto memory = fake.device->allocator().Allocate(32, nullptr);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const uint64_t bits = 0x0123456789abcdef;
  ASSERT_TRUE(fake.device->Fill(*memory, 8, 4, bits, nullptr).ok());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<const uint64_t*>(*memory)[i], bits);
  }
  fake.device->allocator().Free(*memory, 32, nullptr);
}

}  // namespace
}  // namespace kiln

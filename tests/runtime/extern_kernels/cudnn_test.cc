// What is done where cuDNN is absent, too old, or has no engine: over a driver of host memory and
// a cuDNN that computes nothing.
#include "runtime/extern_kernels/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "runtime/cuda_device.h"
#include "runtime/extern_kernels/cuda_externs.h"
#include "runtime/extern_kernels/cudnn_attention.h"
#include "runtime/shared_library.h"
#include "tests/runtime/fake_cuda.h"

namespace kiln {
namespace {

constexpr char kFolder[] = "tests/runtime/fake_cudnn";

std::shared_ptr<CudaDevice> Device() {
  auto device = CudaDevice::Open(0, {kFakeFolder});
  EXPECT_TRUE(device.ok()) << device.status();
  return *device;
}

// Channels-last, with all that an engine may compute behind the sums.
ConvolutionProblem Convolution(bool adds) {
  ConvolutionProblem p;
  p.dtype = DType::kBFloat16;
  p.batch = 2;
  p.image_channels = p.result_channels = 16;
  for (const int d : {0, 1}) {
    p.image[d] = p.result[d] = 8;
    p.window[d] = 3;
    p.padding[d] = 1;
  }
  const int64_t image[] = {8 * 8 * 16, 1, 8 * 16, 16, 0};
  const int64_t window[] = {9 * 16, 1, 3 * 16, 16, 0};
  for (int64_t* strides : {p.image_strides, p.result_strides, p.added_strides})
    std::copy(std::begin(image), std::end(image), strides);
  std::copy(std::begin(window), std::end(window), p.weight_strides);
  p.has_bias = true;
  p.has_added = adds;
  p.activation = Activation::kRelu;
  return p;
}

// Of 64 queries to 64 keys.
AttentionProblem Attention(bool backward = false) {
  AttentionProblem p;
  p.backward = backward;
  p.dtype = DType::kBFloat16;
  p.batch = p.heads = p.key_heads = 1;
  p.queries = p.keys = p.width = p.value_width = 64;
  p.query = p.key = p.value = p.out = {4096, 4096, 64, 1};
  p.logsumexp = {64, 64, 1, 0};
  if (backward)
    p.grad = p.query_grad = p.key_grad = p.value_grad = {4096, 4096, 64, 1};
  return p;
}

class FakeCudnn : public testing::Test {
 protected:
  void SetUp() override {
    auto library = SharedLibrary::Open({"libcudnn.so.9"}, {kFolder});
    ASSERT_TRUE(library.ok()) << library.status();
    ASSERT_TRUE(library->Find("fakeSetVersion", set_version).ok());
    ASSERT_TRUE(library->Find("fakeSetMostOperations", set_most).ok());
    ASSERT_TRUE(library->Find("fakeCalls", calls).ok());
    ASSERT_TRUE(library->Find("fakeEngine", engine).ok());
    ASSERT_TRUE(library->Find("fakeSetLastWorkspace", set_last_workspace).ok());
  }

  // The engines, additions and activations of a run.
  std::array<int, 3> RunOnce(const PreparedCall& call) {
    std::array<int, 3> made{};
    for (int i = 0; i < 3; ++i) made[i] = -calls(i);
    alignas(256) static char memory[5][1 << 14];
    ExternBuffers buffers;
    for (int i = 0; i < 5; ++i) buffers.operand[i] = memory[i];
    const absl::Status status = call.Run(buffers, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    for (int i = 0; i < 3; ++i) made[i] += calls(i);
    return made;
  }

  void (*set_version)(size_t) = nullptr;
  void (*set_most)(int64_t) = nullptr;
  int (*calls)(int) = nullptr;
  int64_t (*engine)() = nullptr;
  void (*set_last_workspace)(int64_t) = nullptr;
};

TEST_F(FakeCudnn, AnEngineThatHasTheEpilogueIsAllOfIt) {
  set_most(4);
  for (const bool adds : {false, true}) {
    const auto externs = MakeCudaExterns(Device(), {kFolder});
    const auto call = externs->Prepare(Convolution(adds));
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ((*call)->algorithm(), "engine7.3=1 with its epilogue");
    EXPECT_THAT(RunOnce(**call), testing::ElementsAre(1, 0, 0));
  }
}

TEST_F(FakeCudnn, WhatNoEngineHasIsComputedBehindTheSums) {
  set_most(1);
  for (const bool adds : {false, true}) {
    const auto externs = MakeCudaExterns(Device(), {kFolder});
    const auto call = externs->Prepare(Convolution(adds));
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_EQ((*call)->algorithm(), "engine7.3=1");
    EXPECT_THAT(RunOnce(**call), testing::ElementsAre(1, adds ? 2 : 1, 1));
  }
}

TEST_F(FakeCudnn, EnginesAreNamedAndADecisionNamesOne) {
  set_most(4);
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  ConvolutionProblem p = Convolution(true);
  EXPECT_THAT(
      *externs->Algorithms(p, 12),
      testing::ElementsAre("engine7.3=1", "engine8.3=1", "engine9.3=1"));
  EXPECT_THAT(*externs->Algorithms(p, 2),
              testing::ElementsAre("engine7.3=1", "engine8.3=1"));
  p.algorithm = "engine8.3=1";
  const auto named = externs->Prepare(p);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ((*named)->algorithm(), "engine8.3=1 with its epilogue");
  EXPECT_EQ(engine(), 8);
  // What the library has not: its own first choice.
  for (const char* const lacking : {"engine8.3=2", "engine12.3=1", "id66"}) {
    p.algorithm = lacking;
    const auto own = externs->Prepare(p);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ((*own)->algorithm(), "engine7.3=1 with its epilogue") << lacking;
    EXPECT_EQ(engine(), 7);
  }
  // One that has no sum to compute leaves no choice.
  p = Convolution(false);
  p.batch = 0;
  EXPECT_THAT(*externs->Algorithms(p, 12), testing::IsEmpty());
}

TEST_F(FakeCudnn, AConvolutionThatNoEngineHasIsRefused) {
  set_most(0);
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  const auto call = externs->Prepare(Convolution(false));
  EXPECT_EQ(ReasonOf(call.status()), ErrorReason::kUnsupportedOp);
  EXPECT_THAT(call.status().message(),
              testing::HasSubstr("CUDNN_STATUS_NOT_SUPPORTED"));
}

TEST_F(FakeCudnn, AttentionOfACudnnThatIsTooOldIsRefusedByName) {
  set_version(90400);
  auto library = Cudnn::Open(Device(), {kFolder});
  ASSERT_TRUE(library.ok()) << library.status();
  const auto call = PrepareCudnnAttention(Attention(), *library);
  const auto names = CudnnAttentionAlgorithms(Attention(), *library, 12);
  set_version(91900);
  EXPECT_EQ(ReasonOf(call.status()), ErrorReason::kUnsupportedOp);
  EXPECT_THAT(call.status().message(),
              testing::HasSubstr("found cuDNN 90400, expected "));
  EXPECT_EQ(names.status(), call.status());
}

TEST_F(FakeCudnn, AttentionTakesTheEngineThatADecisionNames) {
  set_most(100);
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  for (const bool backward : {false, true}) {
    AttentionProblem p = Attention(backward);
    EXPECT_THAT(
        *externs->Algorithms(p, 12),
        testing::ElementsAre("engine7.3=1", "engine8.3=1", "engine9.3=1"));
    for (const char* const name : {"engine9.3=1", "engine8.3=1"}) {
      p.algorithm = name;
      const auto named = externs->Prepare(p);
      ASSERT_TRUE(named.ok()) << named.status();
      EXPECT_EQ((*named)->algorithm(), name);
    }
    EXPECT_EQ(engine(), 8);
    EXPECT_THAT(RunOnce(**externs->Prepare(p)), testing::ElementsAre(1, 0, 0));
  }
}

TEST_F(FakeCudnn, AnEngineThatIsLackedIsToldOfOnceAndTheFirstIsTaken) {
  set_most(100);
  std::vector<std::string> lines;
  ASSERT_TRUE(ConfigureLog({.sink = [&lines](absl::string_view line) {
                lines.emplace_back(line);
              }}).ok());
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  AttentionProblem p = Attention();
  for (const char* const lacking : {"engine9.3=2", "engine12.3=1", "id66"}) {
    p.algorithm = lacking;
    const auto own = externs->Prepare(p);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ((*own)->algorithm(), "engine7.3=1") << lacking;
    EXPECT_EQ(engine(), 7);
  }
  ASSERT_TRUE(ConfigureLog({}).ok());
  EXPECT_THAT(lines, testing::ElementsAre(testing::HasSubstr(
                         "cudnn.engine_missed engine=\"engine9.3=2\"")));
}

// Those may have queries, keys and values twice over in f32.
TEST_F(FakeCudnn, AttentionLeavesOutEnginesThatWriteScoresDown) {
  set_most(100);
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  const int64_t linear = 2 * 3 * 64 * 64 * 4;
  set_last_workspace(linear);
  EXPECT_EQ(externs->Algorithms(Attention(), 12)->size(), 3u);
  set_last_workspace(linear + 1);
  EXPECT_THAT(*externs->Algorithms(Attention(), 12),
              testing::ElementsAre("engine7.3=1", "engine8.3=1"));
  set_last_workspace(0);
}

// Forward and backward have to draw it by one engine.
TEST_F(FakeCudnn, AttentionWithDropoutHasNoChoice) {
  set_most(100);
  const auto externs = MakeCudaExterns(Device(), {kFolder});
  for (const bool backward : {false, true}) {
    AttentionProblem p = Attention(backward);
    p.dropout = 0.1;
    EXPECT_THAT(*externs->Algorithms(p, 12), testing::IsEmpty());
    EXPECT_EQ((*externs->Prepare(p))->algorithm(), "engine7.3=1");
  }
}

// A forward whose backward heard something else would have its dropout redrawn by
// another.
TEST_F(FakeCudnn, WhetherAttentionIsLackedIsAnsweredOnce) {
  const auto has = MakeCudaExterns(Device(), {kFolder});
  EXPECT_FALSE(has->LacksAttention());
  set_version(90400);
  const auto lacks = MakeCudaExterns(Device(), {kFolder});
  EXPECT_TRUE(lacks->LacksAttention());
  EXPECT_FALSE(has->LacksAttention());
  set_version(91900);
  EXPECT_TRUE(lacks->LacksAttention());
}

TEST(NoCudnn, AConvolutionIsRefusedWithTheNameOfWhatIsMissing) {
  if (dlopen("libcudnn.so.9", RTLD_NOW) != nullptr)
    GTEST_SKIP() << "the loader finds one here";
  const auto externs = MakeCudaExterns(Device(), {});
  const auto call = externs->Prepare(Convolution(false));
  EXPECT_EQ(ReasonOf(call.status()), ErrorReason::kNoDevice);
  EXPECT_THAT(call.status().message(),
              testing::HasSubstr("libcudnn.so.9: not on this machine"));
}

}  // namespace
}  // namespace kiln

// Constant weights of convolutions: brought into oneDNN's layout once, while those
// that are inputs are reordered in every run.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "runtime/executor.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/loaded_artifact.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kChannels = 32;  // of image and result
constexpr int64_t kSide = 6;
constexpr int64_t kWeights = kChannels * kChannels * 3 * 3;

// Small whole numbers: sums of their products are exact, in whatever order.
std::vector<float> Values(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + i / 31 + seed) % 5 - 2);
  }
  return values;
}

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

std::string Sizes(const std::vector<std::string>& numbers) {
  std::string text;
  for (const std::string& number : numbers) {
    absl::StrAppend(&text, " sizes { ", number, " }");
  }
  return text;
}

// Row-major, with one symbol for the first size, if at all.
std::string Window(int64_t buffer, const std::string& first,
                   std::vector<int64_t> rest) {
  std::vector<std::string> sizes = {first};
  for (const int64_t size : rest)
    sizes.push_back(absl::StrCat("value: ", size));
  std::string text =
      absl::StrCat("buffer: ", buffer, " dtype: DTYPE_FLOAT32", Sizes(sizes));
  std::vector<int64_t> strides = {1};
  for (size_t i = rest.size(); i-- > 0;) {
    strides.insert(strides.begin(), strides.front() * rest[i]);
  }
  for (const int64_t stride : strides) {
    absl::StrAppend(&text, " strides { value: ", stride, " }");
  }
  return absl::StrCat(text, " offset { value: 0 }");
}

// Convolutions of an image with the same weights, `results` of them, each into a
// result of its own. The weights are constant 0, or the second input.
struct PlanOptions {
  bool weights_are_input = false;
  bool batch_is_symbol = false;
  int results = 1;
  int64_t batch = 4;
  bool weights_are_result = false;
};

std::string PlanText(const PlanOptions& options) {
  const std::string batch = options.batch_is_symbol
                                ? "code { op: SYM_OP_SYMBOL value: 0 }"
                                : absl::StrCat("value: ", options.batch);
  const std::vector<int64_t> image = {kChannels, kSide, kSide};
  const std::vector<int64_t> weights = {kChannels, 3, 3};
  constexpr int64_t kBytesOfOne = kChannels * kSide * kSide * sizeof(float);
  const auto input = [](const std::string& window) {
    const size_t from = window.find("dtype");
    return absl::StrCat("inputs { alignment_bytes: 16 tensor { ",
                        absl::StrReplaceAll(window.substr(from),
                                            {{"offset {", "storage_offset {"}}),
                        " } }\n");
  };
  std::string plan;
  if (options.batch_is_symbol) {
    absl::StrAppend(&plan,
                    "symbols { name: \"s0\" source { kind: KIND_SIZE } min: 1 "
                    "max: 100 }\n");
  }
  absl::StrAppend(&plan, input(Window(0, batch, image)));
  const std::string w = Window(1, absl::StrCat("value: ", kChannels), weights);
  if (options.weights_are_input) absl::StrAppend(&plan, input(w));
  absl::StrAppend(
      &plan, "buffers { kind: KIND_INPUT index: 0 name: \"x\" }\n",
      options.weights_are_input
          ? "buffers { kind: KIND_INPUT index: 1 name: \"w\" }\n"
          : "buffers { kind: KIND_CONSTANT index: 0 name: \"w\" }\n");
  for (int i = 0; i < options.results; ++i) {
    const std::string y = Window(2 + i, batch, image);
    const std::string bytes =
        options.batch_is_symbol
            ? absl::StrCat(
                  "code { op: SYM_OP_SYMBOL value: 0 } code { op: "
                  "SYM_OP_CONSTANT value: ",
                  kBytesOfOne, " } code { op: SYM_OP_MUL }")
            : absl::StrCat("value: ", options.batch * kBytesOfOne);
    absl::StrAppend(&plan, "buffers { kind: KIND_OUTPUT name: \"y", i,
                    "\" bytes { ", bytes, " } }\n");
    absl::StrAppend(
        &plan, "steps { extern_call { name: \"convolution\" inputs { ",
        Window(0, batch, image), " } inputs { ", w, " } outputs { ", y,
        " } attributes { name: \"stride\" ints { values { value: 1 } } }"
        " attributes { name: \"padding\" ints { values { value: 1 } } }"
        " attributes { name: \"dilation\" ints { values { value: 1 } } }"
        " attributes { name: \"groups\" int_value: 1 } } }\n");
    absl::StrAppend(&plan, "outputs { view { ", y, " } }\n");
  }
  if (options.weights_are_result)
    absl::StrAppend(&plan, "outputs { view { ", w, " } }\n");
  return plan;
}

// The convolution by its definition.
std::vector<float> Expected(const std::vector<float>& x,
                            const std::vector<float>& w, int64_t batch) {
  std::vector<float> y(batch * kChannels * kSide * kSide, 0);
  int64_t at = 0;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t k = 0; k < kChannels; ++k) {
      for (int64_t point = 0; point < kSide * kSide; ++point, ++at) {
        for (int64_t tap = 0; tap < 9 * kChannels; ++tap) {
          const int64_t c = tap / 9;
          const int64_t row = point / kSide + tap / 3 % 3 - 1;
          const int64_t column = point % kSide + tap % 3 - 1;
          if (row < 0 || row >= kSide || column < 0 || column >= kSide)
            continue;
          y[at] += x[((n * kChannels + c) * kSide + row) * kSide + column] *
                   w[k * 9 * kChannels + tap];
        }
      }
    }
  }
  return y;
}

class ConstantOperandsTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status there = DnnlLibrary::Open({}).status();
    if (!there.ok()) GTEST_SKIP() << there;
    device_ = TestCpu();
    ASSERT_EQ(reorders(), 0);
  }

  std::shared_ptr<const Executor> LoadPlan(
      const PlanOptions& options, const std::vector<InputValue>& fixed = {}) {
    std::vector<std::string> constants;
    if (!options.weights_are_input) constants.push_back(Bytes(w_));
    TrustPolicy trust;
    trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
    auto view = ArtifactView::Parse(
        Seal(MakeTestArtifact(PlanText(options), constants)), trust,
        device_.device->traits());
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return nullptr;
    auto loaded = LoadedArtifact::Load(*std::move(view), device_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return nullptr;
    auto executor = Executor::Create(*std::move(loaded), fixed);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *std::move(executor) : nullptr;
  }

  // A run of `batch` images, whose results are as they should be.
  void Run(const Executor& executor, int64_t batch,
           const std::vector<InputValue>& weights = {}) const {
    const std::vector<float> x =
        Values(batch * kChannels * kSide * kSide, batch);
    std::vector<InputValue> inputs = {
        FloatTensor({batch, kChannels, kSide, kSide}, x)};
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    const auto outputs = executor.Run(inputs, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (const OutputValue& output : *outputs) {
      const auto& tensor = std::get<Tensor>(output);
      if (tensor.sizes[0] != batch) continue;  // the weights
      EXPECT_EQ(FloatValues(tensor), Expected(x, w_, batch));
    }
  }

  std::vector<InputValue> Weights() const {
    return {FloatTensor({kChannels, kChannels, 3, 3}, w_)};
  }
  int64_t reorders() const { return device_.externs->weight_reorders(); }

  OpenedDevice device_;
  const std::vector<float> w_ = Values(kWeights, 1);
};

TEST_F(ConstantOperandsTest, AConstantIsReorderedOnceAndAnInputInEveryRun) {
  const auto constant = LoadPlan({});
  ASSERT_NE(constant, nullptr);
  for (int i = 0; i < 3; ++i) Run(*constant, 4);
  EXPECT_EQ(reorders(), 1);
  EXPECT_THAT(constant->LibraryCalls(),
              Each(HasSubstr("bytes of a constant prepared")));

  const auto input = LoadPlan({.weights_are_input = true});
  ASSERT_NE(input, nullptr);
  for (int i = 0; i < 3; ++i) Run(*input, 4, Weights());
  EXPECT_EQ(reorders(), 1 + 3);
  EXPECT_THAT(input->LibraryCalls(), Each(Not(HasSubstr("prepared"))));
}

TEST_F(ConstantOperandsTest, AnInputMayChangeBetweenRuns) {
  const auto executor = LoadPlan({.weights_are_input = true});
  ASSERT_NE(executor, nullptr);
  const std::vector<InputValue> weights = Weights();
  Run(*executor, 4, weights);
  auto* const data = static_cast<float*>(std::get<Tensor>(weights[0]).data);
  for (int64_t i = 0; i < kWeights; ++i) data[i] *= 2;
  const std::vector<float> x = Values(4 * kChannels * kSide * kSide, 4);
  const auto outputs = executor->Run(
      {FloatTensor({4, kChannels, kSide, kSide}, x), weights[0]}, {});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  std::vector<float> twice = Expected(x, w_, 4);
  for (float& value : twice) value *= 2;
  EXPECT_EQ(FloatValues(std::get<Tensor>((*outputs)[0])), twice);
}

TEST_F(ConstantOperandsTest, AFixedInputIsAConstant) {
  const std::vector<InputValue> weights = Weights();
  const auto executor = LoadPlan({.weights_are_input = true}, weights);
  ASSERT_NE(executor, nullptr);
  for (int i = 0; i < 3; ++i) Run(*executor, 4, weights);
  EXPECT_EQ(reorders(), 1);
}

TEST_F(ConstantOperandsTest, CallsAndShapesOfOneFormShareACopy) {
  const auto twice = LoadPlan({.results = 2});
  ASSERT_NE(twice, nullptr);
  for (int i = 0; i < 3; ++i) Run(*twice, 4);
  EXPECT_EQ(reorders(), 1);

  const auto shapes = LoadPlan({.batch_is_symbol = true});
  ASSERT_NE(shapes, nullptr);
  EXPECT_EQ(reorders(), 1);  // no shape is known yet
  for (const int64_t batch : {4, 6, 8, 4}) Run(*shapes, batch);
  EXPECT_EQ(reorders(), 2);
}

// One image is cut into a slab of channels for each thread.
TEST_F(ConstantOperandsTest, EachSlabHasItsPart) {
  const auto executor = LoadPlan({.batch = 1});
  ASSERT_NE(executor, nullptr);
  for (int i = 0; i < 3; ++i) Run(*executor, 1);
  EXPECT_EQ(reorders(), 1);
  const auto input = LoadPlan({.weights_are_input = true, .batch = 1});
  ASSERT_NE(input, nullptr);
  Run(*input, 1, Weights());
  EXPECT_EQ(reorders(), 2);  // once in a run, whatever the slabs
}

// The caller may write to a result.
TEST_F(ConstantOperandsTest, WhatAResultViewsIsReadAnewInEveryRun) {
  const auto executor = LoadPlan({.weights_are_result = true});
  ASSERT_NE(executor, nullptr);
  for (int i = 0; i < 3; ++i) Run(*executor, 4);
  EXPECT_EQ(reorders(), 3);
}

// Three images go to two threads in slabs of the channels, which want another form of the
// weights than whole images.
TEST_F(ConstantOperandsTest, EachFormHasACopy) {
  const auto executor = LoadPlan({.batch_is_symbol = true});
  ASSERT_NE(executor, nullptr);
  for (const int64_t batch : {2, 3, 4, 3, 2}) Run(*executor, batch);
  EXPECT_EQ(reorders(), 2);
}

TEST_F(ConstantOperandsTest, ThreadsAtOnceShareACopy) {
  const auto executor = LoadPlan({.batch_is_symbol = true});
  ASSERT_NE(executor, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) Run(*executor, 2 + i % 3 * 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reorders(), 1);
}

TEST_F(ConstantOperandsTest, EachLoadOfAnArtifactHasItsOwn) {
  for (int load = 1; load <= 3; ++load) {
    const auto executor = LoadPlan({});
    ASSERT_NE(executor, nullptr);
    for (int i = 0; i < 2; ++i) Run(*executor, 4);
    EXPECT_EQ(reorders(), load);
  }
}

TEST_F(ConstantOperandsTest, MoreFixedInputsThanThePlanHasAreRefused) {
  TrustPolicy trust;
  trust.unsigned_artifacts = TrustPolicy::Unsigned::kAllow;
  auto view =
      ArtifactView::Parse(Seal(MakeTestArtifact(PlanText({}), {Bytes(w_)})),
                          trust, device_.device->traits());
  ASSERT_TRUE(view.ok()) << view.status();
  auto loaded = LoadedArtifact::Load(*std::move(view), device_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::vector<InputValue> two = {int64_t{1}, int64_t{2}};
  const absl::Status refused =
      Executor::Create(*std::move(loaded), two).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kArtifactIncompatible);
  EXPECT_THAT(refused.message(), HasSubstr("1 inputs"));
}

}  // namespace
}  // namespace kiln

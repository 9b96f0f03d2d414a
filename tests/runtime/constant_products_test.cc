// Constant weights of products in a plan: copied once into rows that oneDNN reads
// faster, while those that are inputs are read as they lie. oneDNN is held to AVX2
// (BUILD.bazel), as there is no copy on AVX-512.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/loaded_artifact.h"
#include "tests/runtime/test_artifact.h"

namespace kiln {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kIn = 256;   // columns of x
constexpr int64_t kOut = 512;  // columns of the result
constexpr int64_t kWeights = kIn * kOut;

// Small whole numbers: sums of their products are exact, in whatever order.
std::vector<float> Values(int64_t count, int64_t seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + i / 31 + seed) % 5 - 2);
  }
  return values;
}

// y = x @ w^T, as torch.nn.Linear has it: w is stored in rows of kIn. The rows of x
// are a symbol. The weights are constant 0, or the second input.
struct PlanOptions {
  bool weights_are_input = false;
  bool weights_are_result = false;
};

std::string PlanText(const PlanOptions& options) {
  const std::string rows = "sizes { code { op: SYM_OP_SYMBOL value: 0 } }";
  const auto two = [](const std::string& field, int64_t a, int64_t b) {
    return absl::Substitute("$0 { value: $1 } $0 { value: $2 }", field, a, b);
  };
  const std::string type = " dtype: DTYPE_FLOAT32 ";
  const std::string x = absl::StrCat(type, rows, " sizes { value: ", kIn, " } ",
                                     two("strides", kIn, 1));
  const std::string y = absl::StrCat(type, rows, " sizes { value: ", kOut,
                                     " } ", two("strides", kOut, 1));
  const std::string stored =
      absl::StrCat(type, two("sizes", kOut, kIn), two("strides", kIn, 1));
  const std::string w =
      absl::StrCat(type, two("sizes", kIn, kOut), two("strides", 1, kIn));
  const auto input = [](const std::string& tensor) {
    return absl::Substitute(
        "inputs { alignment_bytes: 16 tensor { $0 storage_offset { value: 0 } "
        "} "
        "}\n",
        tensor);
  };
  const std::string start = " offset { value: 0 }";
  return absl::StrCat(
      "symbols { name: \"s0\" source { kind: KIND_SIZE } min: 1 max: 1000 }\n",
      input(x), options.weights_are_input ? input(stored) : "",
      "buffers { kind: KIND_INPUT index: 0 name: \"x\" }\n",
      options.weights_are_input
          ? "buffers { kind: KIND_INPUT index: 1 name: \"w\" }\n"
          : "buffers { kind: KIND_CONSTANT index: 0 name: \"w\" }\n",
      "buffers { kind: KIND_OUTPUT name: \"y\" bytes { code { op: "
      "SYM_OP_SYMBOL value: 0 } code { op: SYM_OP_CONSTANT value: ",
      kOut * sizeof(float), " } code { op: SYM_OP_MUL } } }\n",
      "steps { extern_call { name: \"mm\" inputs { buffer: 0", x, start,
      " } inputs { buffer: 1", w, start, " } outputs { buffer: 2", y, start,
      " } } }\n", "outputs { view { buffer: 2", y, start, " } }\n",
      options.weights_are_result
          ? absl::StrCat("outputs { view { buffer: 1", stored, start, " } }\n")
          : "");
}

std::vector<float> Expected(const std::vector<float>& x,
                            const std::vector<float>& w, int64_t rows) {
  std::vector<float> y(rows * kOut, 0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kOut; ++j) {
      for (int64_t k = 0; k < kIn; ++k) {
        y[i * kOut + j] += x[i * kIn + k] * w[j * kIn + k];
      }
    }
  }
  return y;
}

class ConstantProductsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto library = DnnlLibrary::Open({});
    if (!library.ok()) GTEST_SKIP() << library.status();
    if (!(*library)->has_avx2_alone()) GTEST_SKIP() << "no AVX2";
    device_ = TestCpu();
    ASSERT_EQ(reorders(), 0);
  }

  std::shared_ptr<const Executor> LoadPlan(
      const PlanOptions& options, const std::vector<InputValue>& fixed = {}) {
    std::vector<std::string> constants;
    if (!options.weights_are_input) {
      constants.emplace_back(reinterpret_cast<const char*>(w_.data()),
                             w_.size() * sizeof(float));
    }
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

  // A run of `rows` rows, whose result must be that of the weights `w`. Returns all
  // results.
  std::vector<OutputValue> Run(
      const Executor& executor, int64_t rows, const std::vector<float>& w,
      const std::vector<InputValue>& weights = {}) const {
    const std::vector<float> x = Values(rows * kIn, rows);
    std::vector<InputValue> inputs = {FloatTensor({rows, kIn}, x)};
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    auto outputs = executor.Run(inputs, {});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) return {};
    EXPECT_EQ(FloatValues(std::get<Tensor>((*outputs)[0])),
              Expected(x, w, rows));
    return *std::move(outputs);
  }

  std::vector<InputValue> Weights() const {
    return {FloatTensor({kOut, kIn}, w_)};
  }
  int64_t reorders() const { return device_.externs->weight_reorders(); }

  OpenedDevice device_;
  const std::vector<float> w_ = Values(kWeights, 1);
};

// Changes the weights where they lie, and returns what they are then.
std::vector<float> Double(const std::vector<InputValue>& weights) {
  const auto& tensor = std::get<Tensor>(weights[0]);
  auto* const data = static_cast<float*>(tensor.data);
  for (int64_t i = 0; i < kWeights; ++i) data[i] *= 2;
  return FloatValues(tensor);
}

TEST_F(ConstantProductsTest, AConstantIsCopiedOnceAndAnInputNever) {
  const auto constant = LoadPlan({});
  ASSERT_NE(constant, nullptr);
  EXPECT_EQ(reorders(), 0);  // no shape is known yet
  for (int i = 0; i < 3; ++i) Run(*constant, 16, w_);
  EXPECT_EQ(reorders(), 1);
  EXPECT_THAT(constant->LibraryCalls(),
              Each(HasSubstr("bytes of a constant prepared")));

  const auto input = LoadPlan({.weights_are_input = true});
  ASSERT_NE(input, nullptr);
  for (int i = 0; i < 3; ++i) Run(*input, 16, w_, Weights());
  EXPECT_EQ(reorders(), 1);
  EXPECT_THAT(input->LibraryCalls(), Each(Not(HasSubstr("prepared"))));
}

TEST_F(ConstantProductsTest, AnInputMayChangeBetweenRuns) {
  const auto executor = LoadPlan({.weights_are_input = true});
  ASSERT_NE(executor, nullptr);
  const std::vector<InputValue> weights = Weights();
  Run(*executor, 16, w_, weights);
  Run(*executor, 16, Double(weights), weights);
}

TEST_F(ConstantProductsTest, AFixedInputIsAConstantOfItsExecutor) {
  const std::vector<InputValue> weights = Weights();
  const auto executor = LoadPlan({.weights_are_input = true}, weights);
  ASSERT_NE(executor, nullptr);
  for (int i = 0; i < 3; ++i) Run(*executor, 16, w_, weights);
  EXPECT_EQ(reorders(), 1);
  // At the same address, and bound anew: what was copied before is not read.
  const std::vector<float> twice = Double(weights);
  const auto again = LoadPlan({.weights_are_input = true}, weights);
  ASSERT_NE(again, nullptr);
  for (int i = 0; i < 3; ++i) Run(*again, 16, twice, weights);
  EXPECT_EQ(reorders(), 2);
}

TEST_F(ConstantProductsTest, ShapesShareACopyAndThoseThatWantNoneReadNone) {
  const auto executor = LoadPlan({});
  ASSERT_NE(executor, nullptr);
  for (const int64_t rows : {1, 7, 600}) Run(*executor, rows, w_);
  EXPECT_EQ(reorders(), 0);
  for (const int64_t rows : {8, 16, 256, 1, 600, 16}) Run(*executor, rows, w_);
  EXPECT_EQ(reorders(), 1);
}

// The caller may write to a result.
TEST_F(ConstantProductsTest, WhatAResultViewsIsReadAsItLies) {
  const auto executor = LoadPlan({.weights_are_result = true});
  ASSERT_NE(executor, nullptr);
  const std::vector<OutputValue> outputs = Run(*executor, 16, w_);
  ASSERT_EQ(outputs.size(), 2);
  Run(*executor, 16, w_);
  EXPECT_EQ(reorders(), 0);
}

TEST_F(ConstantProductsTest, ThreadsAtOnceShareACopy) {
  const auto executor = LoadPlan({});
  ASSERT_NE(executor, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 9; ++i) Run(*executor, 8 + i % 3, w_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reorders(), 1);
}

TEST_F(ConstantProductsTest, EachLoadOfAnArtifactHasItsOwn) {
  for (int load = 1; load <= 3; ++load) {
    const auto executor = LoadPlan({});
    ASSERT_NE(executor, nullptr);
    for (int i = 0; i < 2; ++i) Run(*executor, 16, w_);
    EXPECT_EQ(reorders(), load);
  }
}

}  // namespace
}  // namespace kiln

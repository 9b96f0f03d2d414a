// cuBLASLt and cuDNN on the suites of every library. Skipped without a GPU.
#include <algorithm>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/gpu/cuda_opener.h"
#include "tests/runtime/extern_kernels/convolution_suite.h"
#include "tests/runtime/extern_kernels/matmul_suite.h"

namespace kiln {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Cuda, MatmulSuite,
    testing::Values(MatmulLibraryCase{
        "cublaslt",
        OpenCudaOrNull,
        {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64},
        /*activates_double=*/false,
        /*scales_empty_sums=*/false,
        /*relu_keeps_nan=*/false,
        /*gelu_tolerance=*/1.0 / 1024,
        /*names_algorithms=*/true,
        /*has_gelu_gradient=*/true}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Cuda, ConvolutionSuite,
    testing::Values(ConvolutionLibraryCase{
        "cudnn",
        OpenCudaOrNull,
        {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}}),
    [](const auto& info) { return std::string(info.param.name); });

// A bias, an array that is added and a relu cost no kernels of their own.
TEST(CudaConvolution, AnEngineComputesTheEpilogueWhileItWrites) {
  const OpenedDevice opened = OpenCudaOrNull();
  if (opened.device == nullptr) GTEST_SKIP() << "no CUDA device here";
  for (const bool adds : {false, true}) {
    ConvolutionProblem p;
    p.dtype = DType::kBFloat16;
    p.precision.reduced_sums = true;
    p.batch = 8;
    p.image_channels = p.result_channels = 64;
    for (const int d : {0, 1}) {
      p.image[d] = p.result[d] = 28;
      p.window[d] = 3;
      p.padding[d] = 1;
    }
    const int64_t image[] = {28 * 28 * 64, 1, 28 * 64, 64, 0};
    const int64_t window[] = {9 * 64, 1, 3 * 64, 64, 0};
    std::copy(std::begin(image), std::end(image), p.image_strides);
    std::copy(std::begin(image), std::end(image), p.result_strides);
    std::copy(std::begin(image), std::end(image), p.added_strides);
    std::copy(std::begin(window), std::end(window), p.weight_strides);
    p.has_bias = true;
    p.has_added = adds;
    p.activation = Activation::kRelu;
    const auto call = opened.externs->Prepare(p);
    ASSERT_TRUE(call.ok()) << call.status();
    EXPECT_THAT((*call)->algorithm(), testing::EndsWith(" with its epilogue"));
  }
}

}  // namespace
}  // namespace kiln

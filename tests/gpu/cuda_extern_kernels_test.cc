// cuBLASLt and cuDNN on the suites of every library. Skipped without a GPU.
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
        /*names_algorithms=*/true}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Cuda, ConvolutionSuite,
    testing::Values(ConvolutionLibraryCase{
        "cudnn",
        OpenCudaOrNull,
        {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kiln

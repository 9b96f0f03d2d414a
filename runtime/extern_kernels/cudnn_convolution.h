#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_CONVOLUTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/cudnn.h"

namespace kiln {

// Convolutions of f32 (through TF32 only where the call allows it), bf16, f16
// and f64, and both gradients, by cuDNN's graph interface. The engine is the one
// that the problem names, or the first of the library's heuristic, whose workspace is at most 1 GiB, which
// compiles nothing at run time, and which is deterministic if the call must be;
// it stays with the problem. For half types one that transforms its operands
// (Winograd, FFT) and rounds what comes out to that type is passed over, unless
// the call allows reduced sums. A bias is a second small call.
//
// UNSUPPORTED_OP  a dtype, layout or shape that cuDNN does not take: named
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareCudnnConvolution(
    const ConvolutionProblem& problem, std::shared_ptr<Cudnn> library);

// Names for ConvolutionProblem::algorithm, as ExternLibrary::Algorithms has them, of
// engines that keep to the same rules (CudnnPlan::Engines). Errors: as above.
absl::StatusOr<std::vector<std::string>> CudnnConvolutionAlgorithms(
    const ConvolutionProblem& problem, std::shared_ptr<Cudnn> library,
    int most);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_CONVOLUTION_H_

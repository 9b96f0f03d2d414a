#ifndef KILN_RUNTIME_EXTERN_KERNELS_TILED_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_TILED_CONVOLUTION_H_

#include <memory>

#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/thread_pool.h"

namespace kiln {

// A convolution or one of its gradients as a product over gathered elements, a group
// and, but for weights, an image at a time. Sums are taken in f64.
//
// nullptr where the product has so few rows, those of a depthwise convolution, that
// gathering takes longer than adding line by line. f32 and f64. `threads` outlives the
// result.
std::shared_ptr<const PreparedCall> PrepareTiledConvolution(
    const ConvolutionProblem& problem, ThreadPool& threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_TILED_CONVOLUTION_H_

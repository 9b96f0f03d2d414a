#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// One piece of a convolution: where it starts in each operand, in elements, and the
// problem that it computes, of which a step takes at most `most_images` (>= 1).
struct ConvolutionCut {
  std::array<int64_t, 5> starts = {};
  ConvolutionProblem problem;
  int64_t most_images = 1;
};

// Cuts a convolution into independent pieces that `threads` share out: by rows of the
// result or by channels, where that ends first or an image is large; else it is one piece,
// whose images are shared out. Rows are those of the first spatial dimension. The weights'
// gradient, a sum over the images, is always cut by channels. No sum is cut between pieces,
// but oneDNN may order it otherwise for a piece's shape. Pure.
std::vector<ConvolutionCut> CutConvolution(const ConvolutionProblem& p,
                                           int64_t threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

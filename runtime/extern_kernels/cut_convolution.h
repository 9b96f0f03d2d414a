#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// One piece of a convolution: where it starts in each operand, in elements, and the
// problem that it computes.
struct ConvolutionCut {
  std::array<int64_t, 5> starts = {};
  ConvolutionProblem problem;
};

// Cuts a convolution by channels or groups into independent pieces for `threads`. One
// piece if sharing out whole images ends as early; the weights' gradient, a sum over the
// images, is always cut. Sums are never cut, so results do not depend on the number of
// threads. Pure.
std::vector<ConvolutionCut> CutConvolution(const ConvolutionProblem& p,
                                           int64_t threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

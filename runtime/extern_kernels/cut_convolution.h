#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// Where a piece starts in each operand, in elements, and what it computes.
struct ConvolutionCut {
  std::array<int64_t, 5> starts = {};
  ConvolutionProblem problem;
};

// Pieces for `threads`, none of which needs what another writes: of the
// channels or groups. One piece where there are images for all threads, which
// then share those out. Sums are never cut, so that results do not depend on
// the number of threads. Pure.
std::vector<ConvolutionCut> CutConvolution(const ConvolutionProblem& p,
                                           int64_t threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUT_CONVOLUTION_H_

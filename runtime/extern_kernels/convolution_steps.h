#ifndef KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_

#include <cstdint>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// How much of a convolution oneDNN computes at a time, and on which layouts. Pure.

// Whether the convolution is computed in place, on the image and the result as they lie.
// Both must be dense and channels-last. With vectors of 32 bytes, a result whose window
// has several pixels and channels is computed on blocked copies instead: in place takes
// up to 1.8 times as long, and the copies cost a tenth.
bool IsComputedAsItLies(const ConvolutionProblem& p, bool has_avx512);

// Splits the images of `p` into more images of fewer rows, if each result pixel depends
// on one image pixel and the arrays are dense and channels-last; else returns `p`. The
// new images are no larger than a core's own cache, or than twice the weights, which are
// read again for each image.
ConvolutionProblem InRows(const ConvolutionProblem& p);

// How many images to compute at a time: a divisor of the batch, at most `most` (>= 1).
// Few enough that a step's data stays in the core's own cache, but enough that the
// weights, which are read again each time, are the smaller part.
int64_t ImagesAtATime(const ConvolutionProblem& p, int64_t most);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_

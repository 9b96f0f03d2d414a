#ifndef KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_

#include <cstdint>

#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// How much of a convolution oneDNN computes at a time, and on which layouts. Pure.

// Whether it computes on image and result where they lie: dense and
// channels-last. With vectors of 32 bytes, a result whose window has several
// pixels and channels is computed on blocked copies: on channels-last arrays
// that takes up to 1.8 times as long, and the copies a tenth.
bool IsComputedAsItLies(const ConvolutionProblem& p, bool has_avx512);

// `p` as a convolution of more images of fewer rows, where each pixel of a
// result is of one pixel of an image, and both lie dense and channels-last. An
// image then is not larger than a core's own cache, or than twice the weights,
// which are read again for each.
ConvolutionProblem InRows(const ConvolutionProblem& p);

// How many images are computed at a time, a divisor of the batch and at most
// `most` (>= 1). As few as find what a step copies and computes still in the
// core's own cache, but so many that the weights, read again each time, are the
// lesser part.
int64_t ImagesAtATime(const ConvolutionProblem& p, int64_t most);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CONVOLUTION_STEPS_H_

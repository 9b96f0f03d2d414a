#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_SHAPES_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_SHAPES_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "runtime/extern_kernels/extern_kernel.h"

// Describes the operands of a convolution to cuDNN, which needs at least two spatial
// dimensions. All functions are pure.

namespace kiln {

using CudnnInts = absl::InlinedVector<int, 5>;
using CudnnLongs = absl::InlinedVector<int64_t, 5>;

// Sizes and strides of an operand, of a bias as an image of one point; a line counts
// as an image of one row, which is the least that cuDNN knows.
CudnnLongs CudnnSizes(const ConvolutionProblem& p, int operand);
CudnnLongs CudnnStrides(const ConvolutionProblem& p, int operand);

// Strides without gaps: channels first, or last.
enum class CudnnFormat { kChannelsFirst, kChannelsLast };
CudnnLongs CudnnDenseStrides(const CudnnLongs& sizes, CudnnFormat format);

// Whether two strides place the elements alike.
bool CudnnSameLayout(const CudnnLongs& sizes, const CudnnLongs& a,
                     const CudnnLongs& b);

CudnnInts ToCudnnInts(const CudnnLongs& from);
// One number a spatial dimension; `absent` for the row that a line lacks.
CudnnLongs CudnnSpatial(const ConvolutionProblem& p, const int64_t* from,
                        int64_t absent);

// Nothing is wanted, or sums of nothing.
bool IsEmpty(const ConvolutionProblem& p);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_SHAPES_H_

#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_CONVOLUTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// An f32 or bf16 convolution by oneDNN. Threads take steps one after another, so
// that one that is late holds nobody up: some images, or rows of one, or a slab
// of the channels or groups (cut_convolution.h).
//
// Layouts: of a channels-last problem, image and result are computed on as they
// lie, unless blocked copies are faster (convolution_steps.h); else oneDNN
// chooses its blocked layouts and the slab is reordered on its way in and out,
// which on AVX2 is twice as fast as computing on NCHW (facts: 2.06 ms against
// 4.39). Either is done a few images or rows at a time, so that what is copied,
// and a result that an activation reads again, stay in a core's cache.
//
// Weights are reordered once in every run, for all its threads and steps: an
// address does not say whether they have changed. A caller that knows that they
// do not change has them reordered once (PreparedCall::PrepareOperand), as
// runtime/constant_operands.h does for constants.
//
// UNSUPPORTED_OP  another dtype; strides that repeat elements; what oneDNN does
//                 not implement
//
// `device` outlives the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlConvolution(
    const ConvolutionProblem& problem,
    std::shared_ptr<const DnnlLibrary> library, CpuDevice& device);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_CONVOLUTION_H_

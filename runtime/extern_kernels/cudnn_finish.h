#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_FINISH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_FINISH_H_

#include <memory>

#include "absl/status/status.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

namespace kiln {

// Finishes a convolution in place, with separate kernels: adds the bias and an array to
// the sums, then applies a relu. Used if no engine can do that while it writes the sums.
// Immutable after Prepare.
class CudnnFinish {
 public:
  CudnnFinish(std::shared_ptr<Cudnn> library, const ConvolutionProblem& problem)
      : library_(std::move(library)), p_(problem) {}
  CudnnFinish(const CudnnFinish&) = delete;
  CudnnFinish& operator=(const CudnnFinish&) = delete;
  ~CudnnFinish();

  // `type`: cuDNN's data type of all arrays. `strides`: of the written array.
  absl::Status Prepare(int type, const CudnnLongs& strides);

  // `handle`: with its stream set. `bias` and `added` are null if there is none.
  absl::Status Run(void* handle, const void* bias, const void* added,
                   void* written) const;

 private:
  absl::Status Describe(int type, const CudnnLongs& sizes,
                        const CudnnLongs& strides, CudnnDescriptor* described);
  absl::Status Add(void* handle, CudnnDescriptor described, const void* array,
                   void* written) const;
  const void* One() const;
  const void* Zero() const;

  const std::shared_ptr<Cudnn> library_;
  const ConvolutionProblem p_;
  CudnnDescriptor bias_ = nullptr, added_ = nullptr, written_ = nullptr;
  CudnnDescriptor relu_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_FINISH_H_

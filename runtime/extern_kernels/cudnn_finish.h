#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_FINISH_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_FINISH_H_

#include <memory>

#include "absl/status/status.h"
#include "runtime/extern_kernels/cudnn.h"
#include "runtime/extern_kernels/cudnn_api.h"
#include "runtime/extern_kernels/cudnn_shapes.h"

namespace kiln {

// What comes behind the sums of a convolution, in kernels of its own: adds the bias
// and an array, then computes a relu, in the place of the sums. For what no engine
// computes while it writes. Immutable once it is prepared.
class CudnnFinish {
 public:
  CudnnFinish(std::shared_ptr<Cudnn> library, const ConvolutionProblem& problem)
      : library_(std::move(library)), p_(problem) {}
  CudnnFinish(const CudnnFinish&) = delete;
  CudnnFinish& operator=(const CudnnFinish&) = delete;
  ~CudnnFinish();

  // `type`: cuDNN's of all arrays; `strides`: of what is written.
  absl::Status Prepare(int type, const CudnnLongs& strides);

  // `handle`: with its stream set. Null for what there is not.
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

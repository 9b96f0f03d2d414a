#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_BF16_MATMUL_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_BF16_MATMUL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/cpu_device.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"

namespace kiln {

// A bf16 matmul by oneDNN's matmul primitive, for processors that multiply
// bf16. A piece of the result a thread is computed in f32; bias and activation
// are applied to that, and it is rounded once.
//
// UNSUPPORTED_OP  another dtype, strides that BLAS has no words for, or what
//                 oneDNN does not implement on this processor
//
// `device` outlives the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlBf16Matmul(
    const MatmulProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    CpuDevice& device);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_BF16_MATMUL_H_

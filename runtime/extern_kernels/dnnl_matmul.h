#ifndef KILN_RUNTIME_EXTERN_KERNELS_DNNL_MATMUL_H_
#define KILN_RUNTIME_EXTERN_KERNELS_DNNL_MATMUL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/thread_pool.h"

namespace kiln {

// An f32 matmul by oneDNN's sgemm, which needs no preparation for a shape: the
// result is cut into a piece a thread, and each piece gets its bias before and
// its activation after the product, while it is in a cache.
//
// UNSUPPORTED_OP  another dtype, or strides that sgemm has no word for (a
//                 matrix with neither stride 1, rows that overlap)
//
// `threads` outlives the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlMatmul(
    const MatmulProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    ThreadPool& threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_DNNL_MATMUL_H_

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
// A caller whose weights never change may have them copied once
// (PreparedCall::PrepareOperand). The copy has its rows of n elements one after the
// other, each at an odd number of cache lines from the last. sgemm sums in another
// order then, so a result may differ in its last bits from that of a call without
// the copy. Weights are the second factor of a row-major result, or the first one of
// a column-major result. The copy is offered where it was measured to pay
// (bench/records/cpu_kernels.md): see WantsCopy in dnnl_matmul.cc.
//
// It stands in for the blocked layout of oneDNN's matmul primitive: asked for
// `format_tag::any`, oneDNN 2.6 names plain dense rows on AVX2, on which its product
// takes up to twice as long where rows are a multiple of 4 KiB apart.
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

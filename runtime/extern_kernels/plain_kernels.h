#ifndef KILN_RUNTIME_EXTERN_KERNELS_PLAIN_KERNELS_H_
#define KILN_RUNTIME_EXTERN_KERNELS_PLAIN_KERNELS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/thread_pool.h"

// Our own loops for what no CPU library computes: f64, integers, f32 on a
// machine without oneDNN, and order. Equal problems give equal results whatever the number of threads.

namespace kiln {

// f32, f64, i32 and i64. alpha and beta of an integer matmul are truncated.
// UNSUPPORTED_OP for another dtype. `threads` outlives the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PreparePlainMatmul(
    const MatmulProblem& problem, ThreadPool& threads);

// f32 and f64; sums are taken in f64.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PreparePlainConvolution(
    const ConvolutionProblem& problem, ThreadPool& threads);

// Every dtype.
std::shared_ptr<const PreparedCall> PreparePlainOrder(
    const OrderProblem& problem, ThreadPool& threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_PLAIN_KERNELS_H_

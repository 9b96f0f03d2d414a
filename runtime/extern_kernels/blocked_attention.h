#ifndef KILN_RUNTIME_EXTERN_KERNELS_BLOCKED_ATTENTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_BLOCKED_ATTENTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/dnnl_library.h"
#include "runtime/extern_kernels/extern_kernel.h"
#include "runtime/thread_pool.h"

namespace kiln {

// Attention on the CPU with memory linear in the lengths: some queries meet some keys
// at a time, and a row's sum is scaled as its maximum grows. f32, and half types
// computed in f32. A row that sees nothing is 0, and so are its logarithm and its
// gradients. The products are oneDNN's, or loops of ours where `library` is null. The
// backward gives each thread whole heads of keys. Equal problems give equal results
// whatever the number of threads.
//
// UNSUPPORTED_OP  f64, or dropout
//
// `threads` outlives the result.
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareBlockedAttention(
    const AttentionProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    ThreadPool& threads);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_BLOCKED_ATTENTION_H_

#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_ATTENTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_ATTENTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/cudnn.h"

namespace kiln {

// Whether the library is one that PrepareCudnnAttention takes, and works on its device.
bool HasCudnnAttention(Cudnn& library);

// Attention of bf16 and f16 by cuDNN's graph interface: one kernel for the
// forward, and one with two small ones for the backward, with memory linear in
// the lengths. The graph says the whole formula; cuDNN knows it by its form. The engine
// is the one that the problem names, or the first of the library's heuristic.
// Engines write their code when a plan is made (hundreds of milliseconds for a
// shape that is new to the process).
//
// UNSUPPORTED_OP  what extern_kernel.h excludes, or what no engine takes; a
//                 cuDNN that is older than 9.16, whose masks are wrong for some
//                 lengths
absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareCudnnAttention(
    const AttentionProblem& problem, std::shared_ptr<Cudnn> library);

// Names for AttentionProblem::algorithm, as ExternLibrary::Algorithms has them, of
// engines whose memory is linear in the lengths, or no more than what the library's own
// first choice needs. Each is compiled to find out whether it takes the problem. None
// with dropout. Errors: as above.
absl::StatusOr<std::vector<std::string>> CudnnAttentionAlgorithms(
    const AttentionProblem& problem, std::shared_ptr<Cudnn> library, int most);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_CUDNN_ATTENTION_H_

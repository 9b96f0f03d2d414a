#ifndef KILN_RUNTIME_EXTERN_KERNELS_CUDNN_ATTENTION_H_
#define KILN_RUNTIME_EXTERN_KERNELS_CUDNN_ATTENTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/extern_kernels/cudnn.h"

namespace kiln {

// Whether PrepareCudnnAttention supports this version of the library, and the library
// works on its device.
bool HasCudnnAttention(Cudnn& library);

// Attention of bf16 and f16 through cuDNN's graph interface. The forward is one kernel,
// the backward one kernel with two small ones. Memory is linear in the lengths. The
// graph spells out the whole formula, and cuDNN recognizes it. Uses the engine that the
// problem names, or the first one of the library's heuristic. Engines generate code when
// a plan is made, which takes hundreds of milliseconds for a shape that is new to the
// process.
//
// UNSUPPORTED_OP  extern_kernel.h excludes the problem, or no engine takes it; or cuDNN
//                 is older than 9.16, whose masks are wrong for some lengths
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

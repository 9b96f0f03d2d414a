#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_JOINS_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_JOINS_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: the accumulators of tuple reductions, and functions that
// combine the accumulators of several threads or blocks.
absl::Span<const PreludePart> CudaJoins();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_JOINS_H_

#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: loads, stores and copies of groups of neighbours, in as few
// accesses as possible.
absl::Span<const PreludePart> CudaPreludeAccesses();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_

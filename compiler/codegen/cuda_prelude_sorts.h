#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SORTS_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SORTS_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: sorts in shared memory, and their keys.
absl::Span<const PreludePart> CudaPreludeSorts();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SORTS_H_

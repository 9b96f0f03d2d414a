#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: groups of neighbours that are loaded, stored and copied
// in the fewest accesses.
absl::Span<const PreludePart> CudaPreludeAccesses();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ACCESSES_H_

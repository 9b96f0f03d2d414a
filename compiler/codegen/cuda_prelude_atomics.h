#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ATOMICS_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ATOMICS_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: atomic updates of memory.
absl::Span<const PreludePart> CudaPreludeAtomics();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_ATOMICS_H_

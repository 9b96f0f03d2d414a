#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SCANS_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: scans over threads and over blocks.
absl::Span<const PreludePart> CudaPreludeScans();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_SCANS_H_

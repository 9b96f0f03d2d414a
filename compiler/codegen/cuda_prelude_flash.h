#ifndef KILN_COMPILER_CODEGEN_CUDA_PRELUDE_FLASH_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRELUDE_FLASH_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// Parts of CUDA's prelude: products by tensor cores, those of matrices with short sums
// (schedule/matrix_product.h), and attention in the form of schedule/flash_kernel.h.
// For sm_80 and later.
absl::Span<const PreludePart> CudaPreludeMatrices();
absl::Span<const PreludePart> CudaPreludeProduct();
absl::Span<const PreludePart> CudaPreludeFlash();
absl::Span<const PreludePart> CudaPreludeFlashGrads();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRELUDE_FLASH_H_

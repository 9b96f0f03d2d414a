#ifndef KILN_COMPILER_CODEGEN_CUDA_PRODUCTS_H_
#define KILN_COMPILER_CODEGEN_CUDA_PRODUCTS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/matrix_product.h"

namespace kiln {

// Writes the statements of a CudaProducts kernel: a warp loads its fragments of both
// factors straight into registers, multiplies them by tensor cores (k_product,
// cuda_prelude_product.cc), and does to groups of sums that lie side by side what the
// nest does to each. There is no shared memory and no barrier.
absl::StatusOr<CudaGrid> WriteCudaProducts(CudaBody& body,
                                           const CudaProducts& variant,
                                           const MatrixProduct& product,
                                           const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_PRODUCTS_H_

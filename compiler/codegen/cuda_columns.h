#ifndef KILN_COMPILER_CODEGEN_CUDA_COLUMNS_H_
#define KILN_COMPILER_CODEGEN_CUDA_COLUMNS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaColumns kernel: a block takes `across` groups of outer
// points, with `down` threads for each, and its part of the reduced points. `body` must
// have the variant's vectors.
//
// Errors: UNSUPPORTED_OP names a reduction that its type does not support.
absl::StatusOr<CudaGrid> WriteCudaColumns(CudaBody& body,
                                          const CudaColumns& variant,
                                          const KernelPasses& passes);

// Writes the statements of a CudaSerial kernel: one thread for each outer point, with
// loops over the reduced axes. `body` must have no vectors.
absl::StatusOr<CudaGrid> WriteCudaSerial(CudaBody& body,
                                         const CudaSerial& variant,
                                         const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_COLUMNS_H_

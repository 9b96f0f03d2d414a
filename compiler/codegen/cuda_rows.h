#ifndef KILN_COMPILER_CODEGEN_CUDA_ROWS_H_
#define KILN_COMPILER_CODEGEN_CUDA_ROWS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaRows kernel: a loop over the outer points, with `lanes`
// threads for each. `body` must have the variant's vectors.
//
// Errors: UNSUPPORTED_OP names a reduction that its type does not support.
absl::StatusOr<CudaGrid> WriteCudaRows(CudaBody& body, const CudaRows& variant,
                                       const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_ROWS_H_

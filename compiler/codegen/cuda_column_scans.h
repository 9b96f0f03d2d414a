#ifndef KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaColumnScans kernel. A thread goes over a stretch of a
// column twice: first for the total of the stretch, then for its running values, which
// start from the totals of the stretches before it. Float sums and products are carried
// as doubles. `body` must have no vectors.
//
// Errors: UNSUPPORTED_OP names a scan that its type does not support.
absl::StatusOr<CudaGrid> WriteCudaColumnScans(CudaBody& body,
                                              const CudaColumnScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_

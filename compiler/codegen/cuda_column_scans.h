#ifndef KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The statements of a CudaColumnScans kernel: a thread goes over a stretch of a
// column twice, first for what it comes to, then, from what the stretches before
// it come to, for its running values. Float sums and products are carried as
// doubles. `body` has no vectors.
//
// UNSUPPORTED_OP names a scan that its type has not.
absl::StatusOr<CudaGrid> WriteCudaColumnScans(CudaBody& body,
                                              const CudaColumnScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_COLUMN_SCANS_H_

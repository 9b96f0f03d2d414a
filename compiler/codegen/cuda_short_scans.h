#ifndef KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaShortScans kernel. The rows of a block are contiguous
// points. Neighbouring threads load neighbouring points into shared memory, scan runs of
// points there, and again store neighbouring points. Float sums and products are carried
// from run to run as doubles. `body` must have no vectors.
//
// Errors: UNSUPPORTED_OP names a scan that its type does not support.
absl::StatusOr<CudaGrid> WriteCudaShortScans(CudaBody& body,
                                             const CudaShortScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_

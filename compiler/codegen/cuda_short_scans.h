#ifndef KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The statements of a CudaShortScans kernel. A block's rows are one stretch of
// points: neighbouring threads load neighbouring points into shared memory, scan
// runs of them there, and store neighbouring points again. Float sums and
// products are carried from run to run as doubles. `body` has no vectors.
//
// UNSUPPORTED_OP names a scan that its type has not.
absl::StatusOr<CudaGrid> WriteCudaShortScans(CudaBody& body,
                                             const CudaShortScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SHORT_SCANS_H_

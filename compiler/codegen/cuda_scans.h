#ifndef KILN_COMPILER_CODEGEN_CUDA_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The statements of a CudaScans kernel: `lanes` threads walk an outer point's
// elements from the first to the last, a group each at a time. Each thread scans
// its group, the threads' totals are scanned by shuffles, and what came before is
// carried on; float sums and products are carried as doubles. A block of several
// that share an outer point publishes its total first, and starts from the totals
// of those before it. `body` has the variant's vectors.
//
// UNSUPPORTED_OP names a scan that its type has not.
absl::StatusOr<CudaGrid> WriteCudaScans(CudaBody& body,
                                        const CudaScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SCANS_H_

#ifndef KILN_COMPILER_CODEGEN_CUDA_SCANS_H_
#define KILN_COMPILER_CODEGEN_CUDA_SCANS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaScans kernel. `lanes` threads go over an outer point's
// elements from the first to the last; at each step a thread takes one group. It scans
// its group, the threads' totals are scanned with shuffles, and the total so far is
// carried to the next step. Float sums and products are carried as doubles. If several
// blocks share an outer point, each first publishes its total, then starts from the
// totals of the blocks before it. `body` must have the variant's vectors.
//
// Errors: UNSUPPORTED_OP names a scan that its type does not support.
absl::StatusOr<CudaGrid> WriteCudaScans(CudaBody& body,
                                        const CudaScans& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_SCANS_H_

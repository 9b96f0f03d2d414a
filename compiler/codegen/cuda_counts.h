#ifndef KILN_COMPILER_CODEGEN_CUDA_COUNTS_H_
#define KILN_COMPILER_CODEGEN_CUDA_COUNTS_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/row_counts.h"

namespace kiln {

// Writes the statements of a CudaCounts kernel: a block sums its points in shared memory,
// then adds its sums to the row's cells. `body` must have the variant's vectors.
absl::StatusOr<CudaGrid> WriteCudaCounts(CudaBody& body, const CudaCounts& v,
                                         const RowCounts& counts);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_COUNTS_H_

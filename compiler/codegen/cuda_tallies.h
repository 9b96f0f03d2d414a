#ifndef KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_
#define KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// Writes the statements of a CudaTallies kernel. Each warp counts the equal values
// among its points, in order, and the block adds the counts of its warps. The counts of
// earlier tiles are found by a decoupled look-back: each tile publishes its own counts
// in the workspace, then their sum with those of the tiles before it. All counts are
// integers, so results do not depend on the order of blocks. Stores go through shared
// memory, where equal values become neighbours, so that a scatter by value writes whole
// sectors.
//
// `body` must have vectors of one element along the reduced axis.
absl::StatusOr<CudaGrid> WriteCudaTallies(CudaBody& body,
                                          const CudaTallies& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_

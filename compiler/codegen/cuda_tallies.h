#ifndef KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_
#define KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_

#include "absl/status/statusor.h"
#include "compiler/codegen/cuda_grid.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The statements of a CudaTallies kernel. A warp counts the equals among its
// points, in order; then the block those of its warps; then what the tiles before
// it have of each value comes from their workspace, by a decoupled look-back: each
// tile publishes its own counts, and their sum with those before as soon as it
// knows them. All counts are integers, so results do not depend on who was first.
// What is stored goes through shared memory, where equal values become
// neighbours, so that a scatter by value writes whole sectors.
//
// `body` has vectors of one element on the reduced axis.
absl::StatusOr<CudaGrid> WriteCudaTallies(CudaBody& body,
                                          const CudaTallies& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_TALLIES_H_

#ifndef KILN_COMPILER_CODEGEN_CUDA_TILES_H_
#define KILN_COMPILER_CODEGEN_CUDA_TILES_H_

// Writes a pointwise kernel whose accesses run along two different axes: a
// block takes a tile of both, and what runs along the other axis goes
// through shared memory, so that every access to global memory is coalesced.

#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The kernel's statements, for kTileThreads threads a block. Sets `grid` to the
// count of blocks.
absl::Status WriteCudaTiles(CudaBody& body, const CudaTiles& variant,
                            const KernelPasses& passes, SymExpr& grid);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_TILES_H_

#ifndef KILN_COMPILER_CODEGEN_CUDA_TILES_H_
#define KILN_COMPILER_CODEGEN_CUDA_TILES_H_

// Writes a pointwise kernel whose accesses run along two different axes: a
// block takes a square tile of both, and what runs along the other axis goes
// through shared memory, so that every access to global memory is coalesced.

#include "absl/status/status.h"
#include "compiler/codegen/cuda_body.h"
#include "compiler/codegen/kernel_passes.h"

namespace kiln {

inline constexpr int kTileThreads = 256;

// Whether a tile of `tile_axis` and the last axis is worth it: some access
// runs along `tile_axis`.
bool WantsTiles(const CudaBody& body, int tile_axis);

// The kernel's statements, for kTileThreads threads a block and a width of 1.
// Sets `grid` to the count of blocks.
absl::Status WriteCudaTiles(CudaBody& body, int tile_axis,
                            const KernelPasses& passes, SymExpr& grid);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_TILES_H_

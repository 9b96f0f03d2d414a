#ifndef KILN_COMPILER_CODEGEN_CPU_TILES_H_
#define KILN_COMPILER_CODEGEN_CPU_TILES_H_

// Writes what one item of a tiled CPU kernel does: squares of K_LANES by K_LANES
// points. What is contiguous along the other axis is loaded and stored in
// vectors of that axis and transposed in registers.

#include "absl/status/status.h"
#include "compiler/codegen/cpu_body.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The vector axis of `body` is the last one. In the text, the item's part of it is
// [v0, v1), that of the variant's axis [y0, y1), and the other axes are i0, i1, ...
absl::Status WriteCpuTiles(CpuBody& body, const CpuTiles& variant,
                           const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_TILES_H_

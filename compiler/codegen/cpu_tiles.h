#ifndef KILN_COMPILER_CODEGEN_CPU_TILES_H_
#define KILN_COMPILER_CODEGEN_CPU_TILES_H_

// Writes the code for one item of a tiled CPU kernel: squares of K_LANES by K_LANES
// points. Accesses that are contiguous along the other axis load and store vectors
// along that axis, which are transposed in registers.

#include "absl/status/status.h"
#include "compiler/codegen/cpu_body.h"
#include "compiler/schedule/kernel_passes.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The vector axis of `body` must be the last one. In the text, the item's part of it is
// [v0, v1), its part of the variant's axis is [y0, y1), and the other axes are i0, i1,
// ...
absl::Status WriteCpuTiles(CpuBody& body, const CpuTiles& variant,
                           const KernelPasses& passes);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_TILES_H_

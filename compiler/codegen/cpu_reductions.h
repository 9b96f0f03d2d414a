#ifndef KILN_COMPILER_CODEGEN_CPU_REDUCTIONS_H_
#define KILN_COMPILER_CODEGEN_CPU_REDUCTIONS_H_

// Writes the code for one item of a CPU kernel with reductions: the passes over its
// reduced axes and the stores after them.

#include "absl/status/status.h"
#include "compiler/codegen/cpu_body.h"
#include "compiler/schedule/kernel_variant.h"

namespace kiln {

// The vector axis of `body` must be the last reduced one. Lanes are combined at the end
// of a pass, in a fixed tree. Float sums over many points are computed in blocks. In
// the text, the outer axes are i0, i1, ...
absl::Status WriteCpuRows(CpuBody& body, const CpuRows& variant);

// The vector axis of `body` must be the last outer one, or none. Each lane reduces its
// own column, and `strip` vectors are reduced side by side. Float sums over many points
// are computed in blocks. In the text, the item's part of that axis is [v0, v1).
absl::Status WriteCpuColumns(CpuBody& body, const CpuColumns& variant);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_REDUCTIONS_H_

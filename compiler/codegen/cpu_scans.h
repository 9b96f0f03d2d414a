#ifndef KILN_COMPILER_CODEGEN_CPU_SCANS_H_
#define KILN_COMPILER_CODEGEN_CPU_SCANS_H_

// Writes the code for one item of a CPU kernel that scans along contiguous elements. The
// running values of K_LANES neighbours are computed together, in log2(K_LANES) steps, and
// combined with the value carried from the row's earlier elements.

#include "absl/status/status.h"
#include "compiler/codegen/cpu_body.h"

namespace kiln {

// The vector axis of `body` must be the only reduced one. A running float sum or
// product is a double. A running logsumexp is kept as the largest term so far and the
// sum relative to it. In the text, the outer axes are i0, i1, ...
absl::Status WriteCpuScans(CpuBody& body);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_SCANS_H_

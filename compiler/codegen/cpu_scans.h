#ifndef KILN_COMPILER_CODEGEN_CPU_SCANS_H_
#define KILN_COMPILER_CODEGEN_CPU_SCANS_H_

// Writes what one item of a CPU kernel does that scans along contiguous elements:
// running values of K_LANES neighbours at a time, in log2(K_LANES) steps, joined
// with what the row has carried so far.

#include "absl/status/status.h"
#include "compiler/codegen/cpu_body.h"

namespace kiln {

// The vector axis of `body` is the only reduced one. A running float sum or product is
// a double. A running logarithm of a sum is kept as the largest term so far and the sum
// divided by it. In the text, the outer axes are i0, i1, ...
absl::Status WriteCpuScans(CpuBody& body);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_SCANS_H_

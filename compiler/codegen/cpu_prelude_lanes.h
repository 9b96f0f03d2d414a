#ifndef KILN_COMPILER_CODEGEN_CPU_PRELUDE_LANES_H_
#define KILN_COMPILER_CODEGEN_CPU_PRELUDE_LANES_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// The parts of the CPU's prelude that move values between lanes or use only some of them:
// partial loads and stores, argmax and argmin (cpu_accumulators.h), transposed squares
// (cpu_tiles.h), running values (cpu_scans.h).
absl::Span<const PreludePart> CpuLanesPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_PRELUDE_LANES_H_

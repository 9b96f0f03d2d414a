#ifndef KILN_COMPILER_CODEGEN_CPU_PRELUDE_PLACES_H_
#define KILN_COMPILER_CODEGEN_CPU_PRELUDE_PLACES_H_

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

// The parts of the CPU's prelude that find where the largest and the smallest
// values stand (cpu_accumulators.h).
absl::Span<const PreludePart> CpuPlacesPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_PRELUDE_PLACES_H_

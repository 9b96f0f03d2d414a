#ifndef KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_
#define KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_

// The mathematical functions of the CPU's prelude, for vectors. Their error is at most 2
// units in the last place of float for all finite results. (Compilers do not vectorize
// calls of expf and the like.)
//
// exp, exp2, sin, cos, tanh and erf compute in float. The others compute in vectors of
// doubles, where plain series are precise enough and only the last rounding matters.
// Functions of doubles, and functions in which models spend no time, call the C library
// for each lane.

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

absl::Span<const PreludePart> CpuMathPrelude();
absl::Span<const PreludePart> CpuLibmPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_

#ifndef KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_
#define KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_

// The CPU prelude's mathematics, within 2 units of the last place of float for
// all finite results. Compilers leave expf and friends scalar; these are not.
//
// exp, exp2, sin, cos, tanh and erf work in float. The others work in double
// vectors, where plain series are exact enough and only the last rounding counts.
// Doubles, and functions that no model spends its time in, go to the C library
// lane by lane.

#include "absl/types/span.h"
#include "compiler/codegen/prelude.h"

namespace kiln {

absl::Span<const PreludePart> CpuMathPrelude();
absl::Span<const PreludePart> CpuLibmPrelude();

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_PRELUDE_MATH_H_

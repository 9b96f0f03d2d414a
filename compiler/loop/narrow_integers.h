#ifndef KILN_COMPILER_LOOP_NARROW_INTEGERS_H_
#define KILN_COMPILER_LOOP_NARROW_INTEGERS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Computes 64-bit integers in 32 bits where their values fit and nothing reads all 64
// bits: a vector holds twice as many, and few processors convert 64-bit integers. A
// comparison whose result follows from the bounds of its values becomes a constant, so
// there is no correction of negative indices that cannot occur. Stored values do not
// change. Returns the number of nests that changed.
//
// Comparisons of an index with a bound stay: code generation recognizes them as ranges.
int NarrowIntegers(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_NARROW_INTEGERS_H_

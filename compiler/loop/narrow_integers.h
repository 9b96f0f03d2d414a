#ifndef KILN_COMPILER_LOOP_NARROW_INTEGERS_H_
#define KILN_COMPILER_LOOP_NARROW_INTEGERS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Computes 64-bit integers in 32 bits where their values fit and nothing reads
// all 64: a vector holds twice as many, and few processors convert 64-bit ones.
// Where the bounds of values decide a comparison, its answer takes its place, so
// that a negative index that cannot be is not corrected. What is stored stays
// the same. Returns the number of nests that changed.
//
// The comparison of an index with a bound stays as it is: code generation knows
// it as a range.
int NarrowIntegers(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_NARROW_INTEGERS_H_

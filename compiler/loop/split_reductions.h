#ifndef KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_
#define KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Splits a long reduction with few results into two nests, so that threads can share
// the work: the first reduces equal parts of an axis, the second reduces the results of
// the parts in order. For targets where one thread takes a whole outer point.
//
// The number of parts depends only on the sizes. Not split: sizes that are symbolic or
// have no suitable divisor, tuples, scans and sorts, and nests in which a reduction reads
// the result of another.
//
// Returns how many nests were split. Linear in the bodies.
int SplitReductions(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

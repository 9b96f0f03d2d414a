#ifndef KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_
#define KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Splits a long reduction with few results into two nests, so that threads can share
// the work. The first nest reduces equal parts of an axis, and the second combines the
// results of the parts in order. For targets where one thread takes a whole outer
// point.
//
// The number of parts depends only on the sizes. Does not split symbolic sizes, sizes
// without a suitable divisor, tuples, scans, sorts, or nests in which a reduction reads
// the result of another.
//
// Returns how many nests were split. Linear in the bodies.
int SplitReductions(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

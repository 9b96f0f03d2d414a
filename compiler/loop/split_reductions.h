#ifndef KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_
#define KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Makes long reductions to few results two nests, so that threads can share
// them: the first reduces equal parts of an axis, the second reduces the parts'
// results in their order. For targets whose threads take an outer point each.
//
// How many parts there are depends on the sizes alone. Left alone: sizes that
// are symbolic or have no divisor for it, tuples, scans and sorts, and nests in
// which a reduction reads another's result.
//
// Returns how many nests were split. Linear in the bodies.
int SplitReductions(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_SPLIT_REDUCTIONS_H_

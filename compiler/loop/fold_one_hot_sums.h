#ifndef KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_
#define KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Replaces sums along an axis of which at most one term is not zero: the sum over j of
// (j == t ? a : 0) * b becomes (0 <= t < n ? a * b : 0), for floats a and b that do not
// depend on j. The backward of cross-entropy has such a sum over the vocabulary for each
// row.
//
// Changes only nests with one reduced axis, without stores at reduced points, whose
// reductions are all such sums. The new nest has no reduction.
//
// The terms may also be cast, negated and multiplied. Zero times infinity or NaN counts
// as zero here.
//
// Returns how many nests changed. Linear in the bodies.
int FoldOneHotSums(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

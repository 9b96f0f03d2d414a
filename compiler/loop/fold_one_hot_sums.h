#ifndef KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_
#define KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Replaces sums along an axis whose terms are zero everywhere but at one point:
// sum over j of (j == t ? a : 0) * b becomes (0 <= t < n ? a * b : 0), for float a
// and b that do not depend on j. The backward of cross-entropy sums such a row over
// the whole vocabulary.
//
// Changes only nests with one reduced axis that store nothing at reduced points and
// whose reductions are all such sums. The new nest has no reduction.
//
// Casts, negations and products may be applied to the zero. Zero times infinity or
// NaN counts as zero here.
//
// Returns how many nests changed. Linear in the bodies.
int FoldOneHotSums(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

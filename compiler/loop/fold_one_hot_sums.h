#ifndef KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_
#define KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Replaces sums over an axis of a value that is zero but where the axis equals a
// number: sum over j of (j == t ? a : 0) * b is (0 <= t < n ? a * b : 0), for
// float a and b that do not move along j. A cross-entropy's backward sums such a
// row over the whole vocabulary.
//
// Only nests with one reduced axis, all of whose reductions are such sums and
// that store nothing at reduced points: what is left of them has no reduction.
//
// The zero may stand beneath casts, negations and products. A product of zero
// with an infinite or undefined factor is taken for zero, as algebra has it.
//
// Returns how many nests changed. Linear in the bodies.
int FoldOneHotSums(LoopProgram& program);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_FOLD_ONE_HOT_SUMS_H_

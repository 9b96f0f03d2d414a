#ifndef KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_
#define KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_

// Masks that say whether an index is within bounds: those of a padded window, say.
// Along an axis they hold in one stretch, so where they hold at both ends of a
// vector they hold for all of it.

#include <vector>

#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The masks of a pointwise nest that move along `axis` and hold in one stretch of
// it, if some load without a loaded index is under one of them: comparisons of
// indices that move by equal steps, and conjunctions of such. The largest ones, in
// order.
std::vector<ScalarId> RangeMasks(const LoopNest& nest, const NestFacts& facts,
                                 uint32_t axis);

// Whether all of `masks` hold in the middle of the nest's axes, with symbols at
// their hints.
bool HoldInTheMiddle(const std::vector<ScalarId>& masks, const LoopNest& nest,
                     const NestFacts& facts, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_

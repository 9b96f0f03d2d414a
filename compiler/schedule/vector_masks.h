#ifndef KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_
#define KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_

// Masks that test whether an index is within bounds, like those of a padded window. Along
// an axis such a mask holds on one interval. So if it holds for the first and the last
// element of a vector, it holds for all of them.

#include <vector>

#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The masks of a pointwise nest that depend on `axis` and hold on one interval of it:
// comparisons of indices that are linear in the axis, and conjunctions of such
// comparisons. A mask that is only part of a larger one is left out. In the order of the
// body. Empty unless one of them masks a load that has no loaded index.
std::vector<ScalarId> RangeMasks(const LoopNest& nest, const NestFacts& facts,
                                 uint32_t axis);

// Whether all of `masks` hold at the middle point of the nest's axes, with symbols at
// their hints. Loaded values count as 1.
bool HoldInTheMiddle(const std::vector<ScalarId>& masks, const LoopNest& nest,
                     const NestFacts& facts, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_VECTOR_MASKS_H_

#ifndef KILN_COMPILER_LOOP_VALUE_BOUNDS_H_
#define KILN_COMPILER_LOOP_VALUE_BOUNDS_H_

// What values the nodes of a nest can have.

#include <limits>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Inclusive. A float that can be NaN is not a `number`; the bounds then hold for
// what else it can be. Integers above 2^53 in magnitude count as unbounded.
struct ValueBounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool number = true;

  bool Within(double least, double most) const {
    return number && least <= min && max <= most;
  }
};

// Of each node, by its id: sound, not always tight. Floats are widened by more
// than any order of rounding can move them, so that they hold for fused
// multiply-adds too. Linear in the body.
std::vector<ValueBounds> BoundValues(const LoopNest& nest,
                                     const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_VALUE_BOUNDS_H_

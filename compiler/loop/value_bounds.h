#ifndef KILN_COMPILER_LOOP_VALUE_BOUNDS_H_
#define KILN_COMPILER_LOOP_VALUE_BOUNDS_H_

// Bounds on the values of a nest's nodes.

#include <limits>
#include <vector>

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Inclusive bounds. `number` is false for a float that can be NaN; the bounds then hold
// for its other values. Integers above 2^53 in magnitude count as unbounded.
struct ValueBounds {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool number = true;

  bool Within(double least, double most) const {
    return number && least <= min && max <= most;
  }
};

// Bounds of each node, by its id. They are sound but not always tight. Bounds of floats
// are widened by more than rounding can add, in any order of operations, so they hold
// for fused multiply-adds too. Linear in the body.
std::vector<ValueBounds> BoundValues(const LoopNest& nest,
                                     const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_VALUE_BOUNDS_H_

#ifndef KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

// Whether two nests can walk one iteration space, and how.
//
// Axes are cut into atoms until those of both sides agree: i over B*S becomes
// b, s when the other nest has them. Which atom of one side is which of the
// other is read off the accesses that both make to one buffer: equal weights
// in equal addresses are equal axes, whatever order the loops stand in. Atoms
// that no access binds are matched in order.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/schedule/fusion_unit.h"

namespace kiln {

// One space for both. values_x[k] is the old axis k over the new axes.
struct Alignment {
  std::vector<Axis> axes;
  std::vector<SymExpr> first_values;
  std::vector<SymExpr> second_values;
};

// None when the spaces differ. What agrees:
//
//   both without reduction     the same points
//   both with reduction        the same outer points, the same reduced points
//   one with                   the other walks all its points, or its outer
//                              points alone (a prologue or an epilogue)
std::optional<Alignment> AlignAxes(const FusionUnit& first,
                                   const FusionUnit& second,
                                   const ShapeEnv& shapes);

// Whether `a` of the first nest and `b` of the second meet the same element at
// every point of the aligned space.
bool SamePlace(const NestAccess& a, const NestAccess& b,
               const Alignment& alignment, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

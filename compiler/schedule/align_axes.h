#ifndef KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

// Whether two nests can share one iteration space, and how.
//
// Axes of both nests are split until the pieces match: i over B*S becomes b, s
// if the other nest has those. Accesses of both nests to one buffer tell which
// piece of the one is which of the other: pieces are equal if they have equal
// strides in equal addresses, whatever the order of the loops. Pieces that no
// such access contains are matched in order.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/schedule/fusion_unit.h"

namespace kiln {

// The shared space. first_values[k] is axis k of the first nest in terms of the
// new axes; second_values the same for the second nest.
struct Alignment {
  std::vector<Axis> axes;
  std::vector<SymExpr> first_values;
  std::vector<SymExpr> second_values;
};

// None if the spaces differ. They agree if,
//
//   where neither reduces, both have the same points
//   where both reduce, they have the same outer points and the same reduced points
//   where one reduces, the other has all of its points, or its outer points only
//                      (a prologue or an epilogue)
std::optional<Alignment> AlignAxes(const FusionUnit& first,
                                   const FusionUnit& second,
                                   const ShapeEnv& shapes);

// Whether `a` of the first nest and `b` of the second access the same element at
// every point of the shared space.
bool SamePlace(const NestAccess& a, const NestAccess& b,
               const Alignment& alignment, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

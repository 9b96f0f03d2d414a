#ifndef KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_
#define KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

// Decides whether two nests can share one iteration space, and maps their axes to it.
//
// Axes of both nests are split until the pieces match: i over B*S becomes b, s if the
// other nest has those. Where both nests access one buffer, pieces with equal strides
// in equal addresses are the same piece, in whatever order the loops run. The other
// pieces are matched in order.

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/schedule/fusion_unit.h"

namespace kiln {

// The shared iteration space. first_values[k] is axis k of the first nest as an
// expression of the new axes; second_values are the same for the second nest.
struct Alignment {
  std::vector<Axis> axes;
  std::vector<SymExpr> first_values;
  std::vector<SymExpr> second_values;
};

// Returns none if the spaces do not agree. They agree if
//
//   neither nest reduces, and both have the same points
//   both nests reduce, and have the same outer points and the same reduced points
//   one nest reduces, and the other (a prologue or an epilogue) has all of its points
//   or only its outer points
//
// Pure.
std::optional<Alignment> AlignAxes(const FusionUnit& first,
                                   const FusionUnit& second,
                                   const ShapeEnv& shapes);

// Whether access `a` of the first nest and access `b` of the second reach the same
// element at every point of the shared space.
bool SamePlace(const NestAccess& a, const NestAccess& b,
               const Alignment& alignment, const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_ALIGN_AXES_H_

#ifndef KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_
#define KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

// Transformations of a nest's axes that do not change what it computes. Pure: each
// returns a new nest.

#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Adds the origins and client nodes of `from` to those of `into`.
void TakeOrigins(const LoopNest& from, LoopNest& into);
void TakeOrigins(const LoopNest& from, Contraction& into);

// `nest` over `axes`. Its old axis k is replaced by values[k], an expression over the new
// axes, and every index is simplified with the new extents. The body is built again, so
// nodes that became equal are merged.
LoopNest ReplaceAxes(const LoopNest& nest, std::vector<Axis> axes,
                     absl::Span<const SymExpr> values, const ShapeEnv& shapes);

// Reorders the axes: new axis k is old axis order[k].
LoopNest PermuteAxes(const LoopNest& nest, absl::Span<const uint32_t> order,
                     const ShapeEnv& shapes);

// If an axis i is used only as i // c or i mod c, where c divides its extent, splits it
// into two axes i // c and i mod c. Repeats until no such division is left. This makes
// the indices of views linear. MergeAxes is the inverse.
LoopNest SplitAtDivisions(LoopNest nest, const ShapeEnv& shapes);

// Makes a nest flat: replaces the index of each load and store by one expression, the
// element's offset in the buffer. Codegen reads nests in this form.
void FlattenAddresses(LoopNest& nest, const std::vector<Buffer>& buffers);

// Merges neighbouring axes, both reduced or both not, if every index of the nest uses
// them as a row-major pair. The nest must be flat.
LoopNest MergeAxes(LoopNest nest, const ShapeEnv& shapes);

uint32_t NumOuterAxes(const LoopNest& nest);  // those that are not reduced
bool HasReduction(const LoopNest& nest);      // any reduction axis
SymExpr PointCount(const LoopNest& nest);     // product of all extents

// The extents, in order.
std::vector<SymExpr> ExtentsOf(const LoopNest& nest);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

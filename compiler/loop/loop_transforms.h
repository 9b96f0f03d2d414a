#ifndef KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_
#define KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

// Transformations of a nest's axes that do not change what it computes. Each returns
// a new nest.

#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Adds the origins of `from` to those of `into`.
void TakeOrigins(const LoopNest& from, LoopNest& into);
void TakeOrigins(const LoopNest& from, Contraction& into);

// Returns `nest` over `axes`. Its old axis k is replaced by values[k], an expression
// over the new axes, and every index is simplified with the new extents. The body is
// built again, so nodes that became equal are merged.
LoopNest ReplaceAxes(const LoopNest& nest, std::vector<Axis> axes,
                     absl::Span<const SymExpr> values, const ShapeEnv& shapes);

// Reorders the axes: new axis k is old axis order[k].
LoopNest PermuteAxes(const LoopNest& nest, absl::Span<const uint32_t> order,
                     const ShapeEnv& shapes);

// Splits each axis i that is only used as i // c and i mod c (or as one of them) into
// two axes, i // c and i mod c, where c divides its extent. Repeats until no such
// division is left, so the indices of views become linear. MergeAxes merges axes.
LoopNest SplitAtDivisions(LoopNest nest, const ShapeEnv& shapes);

// Replaces the index of each load and store by one expression: the offset of the
// element from the buffer's first. Codegen reads nests in this form.
void FlattenAddresses(LoopNest& nest, const std::vector<Buffer>& buffers);

// Merges neighbouring axes of one kind if every index of the nest uses them as one
// row-major pair. The nest must be flat.
LoopNest MergeAxes(const LoopNest& nest, const ShapeEnv& shapes);

uint32_t NumOuterAxes(const LoopNest& nest);  // those that are not reduced
bool HasReduction(const LoopNest& nest);      // any reduction axis
SymExpr PointCount(const LoopNest& nest);     // product of all extents

// The extents, in order.
std::vector<SymExpr> ExtentsOf(const LoopNest& nest);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

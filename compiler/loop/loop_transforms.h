#ifndef KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_
#define KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

// Changes of a nest's axes that leave its meaning alone. Each gives a new
// nest.

#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Whatever `from` came from, `into` comes from too.
void TakeOrigins(const LoopNest& from, LoopNest& into);
void TakeOrigins(const LoopNest& from, Contraction& into);

// `nest` over `axes`, with its old axis k replaced by values[k], an expression
// over the new axes. Every index is simplified with the new extents. The body
// is written anew, so that nodes that became equal are one.
LoopNest ReplaceAxes(const LoopNest& nest, std::vector<Axis> axes,
                     absl::Span<const SymExpr> values, const ShapeEnv& shapes);

// Puts old axis order[k] in place k.
LoopNest PermuteAxes(const LoopNest& nest, absl::Span<const uint32_t> order,
                     const ShapeEnv& shapes);

// Splits each axis i that is only met as i // c and i mod c (or once so) into
// (i // c, i mod c) where c divides its extent, until no such division is
// left: indices of views become linear. Merging is MergeAxes' business.
LoopNest SplitAtDivisions(LoopNest nest, const ShapeEnv& shapes);

// Replaces the index of each load and store by one expression: the address of
// the element, counted from the buffer's first. What codegen gets.
void FlattenAddresses(LoopNest& nest, const std::vector<Buffer>& buffers);

// Joins neighbouring axes of one kind wherever every index of the nest, which
// is flat, uses them as one row-major pair.
LoopNest MergeAxes(const LoopNest& nest, const ShapeEnv& shapes);

uint32_t NumOuterAxes(const LoopNest& nest);  // those that are not reduced
bool HasReduction(const LoopNest& nest);      // any reduction axis
SymExpr PointCount(const LoopNest& nest);     // product of all extents

// The extents, in order.
std::vector<SymExpr> ExtentsOf(const LoopNest& nest);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_LOOP_TRANSFORMS_H_

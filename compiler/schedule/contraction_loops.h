#ifndef KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The index of the element of `buffer` that lies `address` elements from its first one.
// `extents` are those of the axes that `address` names. None if the index does not follow
// from the buffer's strides. Pure.
std::optional<DimVector> IndexAt(const SymExpr& address, const Buffer& buffer,
                                 const DimVector& extents,
                                 const ShapeEnv& shapes);

// A verified product as a nest, which can be fused like any other: loops over the
// result's axes, and a reduction over k if k has more than one point. None for a
// convolution, or if the view of an operand does not map to indices of its buffer
// (IndexAt). Pure.
std::optional<LoopNest> NestOf(const Contraction& product,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_

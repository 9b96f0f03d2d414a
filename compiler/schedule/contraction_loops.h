#ifndef KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_
#define KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_

#include <optional>
#include <vector>

#include "compiler/loop/contraction.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// The index in `buffer` of the element at `address`, which counts from its first;
// none where the buffer's strides do not tell its dimensions apart. `extents` are
// those of the axes in the address. Pure.
std::optional<DimVector> IndexAt(const SymExpr& address, const Buffer& buffer,
                                 const DimVector& extents,
                                 const ShapeEnv& shapes);

// A verified product as a nest of ours, which fusion then sees as any other: over
// the result's axes, and a reduction over k where that is more than one point.
// None of a convolution, and where an operand's place in its buffer is no index.
// Pure.
std::optional<LoopNest> NestOf(const Contraction& product,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CONTRACTION_LOOPS_H_

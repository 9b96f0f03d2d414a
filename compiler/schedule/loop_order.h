#ifndef KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_
#define KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// Orders the axes of `nest`, whose addresses are flat, so that inner loops have small
// strides. The access that moves the most bytes decides first, then the next one, and so
// on. Outer axes and reduced axes are ordered separately.
//
// A nest with a scan keeps its order, since its result depends on it. Pure.
LoopNest OrderAxes(LoopNest nest, const std::vector<Buffer>& buffers,
                   const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_

#ifndef KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_
#define KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_

#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

// `nest`, whose addresses are flat, with its axes ordered so that neighbours
// in memory are neighbours in the loops: by their strides in the access that
// moves most bytes, then in the next. Outer axes and reduced axes apart.
//
// A nest with a scan keeps its order: it is the meaning there.
LoopNest OrderAxes(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   const ShapeEnv& shapes);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LOOP_ORDER_H_

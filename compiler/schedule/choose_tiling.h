#ifndef KILN_COMPILER_SCHEDULE_CHOOSE_TILING_H_
#define KILN_COMPILER_SCHEDULE_CHOOSE_TILING_H_

#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// How the iteration space of `nest`, whose addresses are flat and whose axes
// are merged and in their final order, is dealt out to threads.
//
// Decides: the mapping, vector width, threads of a block, rows of a block,
// whether a row stays in registers between its passes.
// Leaves alone: axes and their order (loop_order.h).
//
//   max_row  elements of a row that may be kept in registers
//
// Pure; a function of shapes (upper bounds where they hold symbols), dtypes
// and strides.
KernelTiling ChooseTiling(const LoopNest& nest,
                          const std::vector<Buffer>& buffers,
                          const ShapeEnv& shapes, const Target& target,
                          int64_t max_row);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_CHOOSE_TILING_H_

#ifndef KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_
#define KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The plan that a program begins as: a kernel for each nest, over flat buffers,
// unmapped, and without places in the arena. Flat buffers have one dimension, stride 1,
// and are as long as their memory; a load or store then has one index, the element's
// address. Views of library calls and outputs keep their shapes.
KernelPlan FlattenAddresses(LoopProgram program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_

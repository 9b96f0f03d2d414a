#ifndef KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_
#define KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_

#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The first plan of a program: a kernel for each nest, without a variant, over flat
// buffers without places in the arena. A flat buffer has one dimension with stride 1 and is
// as long as its memory, so a load or store has one index: the element's offset. Views of
// library calls and outputs keep their shapes.
KernelPlan FlattenAddresses(LoopProgram program);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_FLATTEN_PROGRAM_H_

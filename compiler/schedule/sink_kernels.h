#ifndef KILN_COMPILER_SCHEDULE_SINK_KERNELS_H_
#define KILN_COMPILER_SCHEDULE_SINK_KERNELS_H_

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Moves kernels to just before the first step that reads their results, if less memory
// is live that way: the results are temporaries that take at least 1 MiB more than what
// the kernel itself would keep alive until then. A backward often begins with what it
// computes again and reads last: the indices of a pool, an activation.
//
// Steps keep the order that their buffers require. Kernels that are combined, library
// calls and fills stay where they are. Sizes are taken at the hints.
//
// Returns the number of kernels that it moved. Pure. Linear in the plan for each kernel
// with such a result.
int SinkKernels(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_SINK_KERNELS_H_

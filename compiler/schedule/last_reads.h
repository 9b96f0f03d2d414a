#ifndef KILN_COMPILER_SCHEDULE_LAST_READS_H_
#define KILN_COMPILER_SCHEDULE_LAST_READS_H_

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Sets ScalarNode.last_read of loads whose elements the plan does not need again: CUDA
// kernels load these past the L2 cache's other contents, which stay.
//
// Such a load is in a kernel that only reduces, the last step that touches its buffer. It
// is the kernel's only access to the buffer, and takes each element once. Buffers that are
// returned are left out, because the caller reads them, and so are kernels whose loads of
// this kind take more than 200 MB in all, with symbols at their hints.
//
// With L2 full of what kernels before have written, a kernel that reads 64 MiB takes 28 us
// instead of 33 on an H100: it need not wait until that is written back
// (bench/records/gpu_kernels.md). Kernels that store as much as they load gain nothing.
//
// Returns the number of loads.
int MarkLastReads(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LAST_READS_H_

#ifndef KILN_COMPILER_SCHEDULE_METRICS_H_
#define KILN_COMPILER_SCHEDULE_METRICS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

struct KernelBytes {
  SymExpr read = 0;
  SymExpr written = 0;
};

// The bytes that a kernel moves, by Inductor's model (num_bytes_accessed): each
// buffer is charged once, with its accesses (one a point of the nest for each
// load) or its size, whichever is less. A buffer that is loaded and stored
// counts as written.
KernelBytes BytesOf(const LoopNest& nest, const std::vector<Buffer>& buffers);

// Of kernels that share a launch: a buffer that several of them read is
// charged to each, as they may run far apart.
KernelBytes BytesOf(absl::Span<const PlannedKernel> kernels,
                    const std::vector<Buffer>& buffers);

// What a plan asks of the device a run.
struct LaunchCounts {
  int64_t kernels = 0;
  int64_t fills = 0;
  int64_t externs = 0;
  int64_t bytes = 0;  // of kernels, at the hints

  int64_t launches() const { return kernels + fills; }
};
LaunchCounts CountLaunches(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_METRICS_H_

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

// The bytes that a kernel moves, at most: each buffer once, with its accesses
// (one a point of the nest for each load and store) or its size, whichever is
// less. A buffer that is loaded and stored counts as written.
KernelBytes BytesOf(const LoopNest& nest, const std::vector<Buffer>& buffers);

// For kernels that share a launch: a buffer that several of them read is charged to
// each, since they may read it at different times.
KernelBytes BytesOf(absl::Span<const PlannedKernel> kernels,
                    const std::vector<Buffer>& buffers);

// Each array once, what is stretched in it as it lies in memory.
KernelBytes BytesOf(const FlashKernel& kernel);

// What one run of a plan costs the device.
//
// `bytes` is Inductor's num_bytes_accessed, which its users' tests assert: of
// each step the buffers that it reads or writes, each charged once.
//   a nest of its own       as many elements as it has points, for each place
//                           that it loads or stores; the whole buffer at most
//   merged nests, kernels   whole buffers
//   that share a launch
//   a library call          whole operands, and its results
//   a fill                  its buffer
// A write over data (an input, or a buffer that earlier steps have written completely)
// is charged twice, for the new data and for the old.
// Constants are not charged.
struct LaunchCounts {
  int64_t kernels = 0;
  int64_t fills = 0;
  int64_t externs = 0;
  int64_t bytes = 0;  // at the hints

  int64_t launches() const { return kernels + fills; }
};
LaunchCounts CountLaunches(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_METRICS_H_

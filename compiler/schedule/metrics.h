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

// The bytes that a kernel reads and writes, at most. Each buffer counts once, with its
// number of accesses (one for each load or store and point of the nest) or its size,
// whichever is less. A buffer that is loaded and stored counts as written.
KernelBytes BytesOf(const LoopNest& nest, const std::vector<Buffer>& buffers);

// The bytes of kernels that share a launch. A buffer that several of them read counts for
// each, since they may read it at different times.
KernelBytes BytesOf(absl::Span<const PlannedKernel> kernels,
                    const std::vector<Buffer>& buffers);

// The bytes of an attention kernel. Each array counts once, without its broadcast
// dimensions (stride 0).
KernelBytes BytesOf(const FlashKernel& kernel);

// What one run of a plan costs the device.
//
// `bytes` is Inductor's num_bytes_accessed, which tests of its users check. For each step,
// each buffer that it reads or writes counts once:
//
//   a nest that was not     one element for each point and each index that it loads or
//   merged                  stores; at most the whole buffer
//   merged nests, kernels   whole buffers
//   that share a launch
//   a library call          whole operands, and its results
//   a fill                  its buffer
//
// A write over existing data (an input, or a buffer that earlier steps have written
// completely) counts twice, for the new data and for the old. Constants do not count.
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

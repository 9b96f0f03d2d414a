#ifndef KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_
#define KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_

#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// A result that may be written in place of an operand: each element of `write` depends
// on the element of `read` at the same place, and on no other element of it.
struct InplacePair {
  BufferId read;
  BufferId write;
};

// Whether the buffer is an input whose memory a temporary may take.
bool MayBeTaken(const Buffer& buffer);

// The pairs of one nest, whose addresses are flat. The caller checks lifetimes. Each
// value that is stored to `write` depends on the only load of `read`. So no order of
// statements can read an element after it was overwritten. Pure.
std::vector<InplacePair> InplacePairs(const LoopNest& nest,
                                      const std::vector<Buffer>& buffers);

// The pairs of kernels that share a launch. None of them may overwrite an operand that
// several of them read.
std::vector<InplacePair> InplacePairs(absl::Span<const PlannedKernel> kernels,
                                      const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_

#ifndef KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_
#define KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_

#include <vector>

#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// A result that may take the memory of an operand: every element is written
// from the one element of `read` that lies in its place.
struct InplacePair {
  BufferId read;
  BufferId write;
};

// Whether the buffer is an input that a temporary may take the place of.
bool MayBeTaken(const Buffer& buffer);

// The pairs of one nest, whose addresses are flat. Lifetimes are the caller's
// business. Every value that is written to `write` depends on the only load of
// `read`, so that no order of statements can read what was overwritten.
std::vector<InplacePair> InplacePairs(const LoopNest& nest,
                                      const std::vector<Buffer>& buffers);

// The same for kernels that share a launch: an operand that several of them read may
// not be overwritten by one of them.
std::vector<InplacePair> InplacePairs(absl::Span<const PlannedKernel> kernels,
                                      const std::vector<Buffer>& buffers);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_INPLACE_REUSE_H_

#ifndef KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_
#define KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

struct CombineLimits {
  // Arguments of one kernel. The CPU has no such limit; it uses the same number so that
  // plans for different targets differ less.
  size_t arguments = kMaxKernelArguments;
  // Different bodies in one kernel. Each is compiled, and the kernel needs as many
  // registers as the largest of them.
  size_t bodies = 4;
  // Loops of all different bodies of one kernel together.
  int loops = 64;
  // A kernel of more points, with symbols at their hints, is moved only if that costs
  // less than its launch.
  int64_t small_points = kLaunchBoundPoints;
  // Bytes by which the plan's peak of memory may grow, with symbols at their hints.
  int64_t more_peak_bytes = 64 << 10;
};

// Combines independent pointwise kernels with different iteration spaces into one launch.
// For example, an optimizer's step starts as one kernel for each parameter, and autocast
// casts each weight.
//
// Kernels are considered in the order of the plan. A kernel joins an earlier launch with
// an equal body (kernel_fingerprint.h) if there is one, since that adds no code.
// Kernels that are not pointwise, draw random numbers, scan or add atomically stay
// apart. A kernel without a partner is not changed.
//
// Mapping: parts with one axis all get the same vector width, so that a size that is not
// a multiple of it needs no code of its own. A kernel of many points
// (limits.small_points) joins only if this mapping slows it down by less than a launch.
//
// Order: all parts run at the position of the first one. A kernel joins only if what it
// reads has been computed by then, so no other step moves. Parts whose results no step
// reads, like gradients, may run at the position of the last one instead. A kernel of
// many points that moves finds less in the cache, or leaves less there. On a GPU it moves
// if reading those bytes from memory takes less time than a launch. On a CPU it does not
// move if a later step reads its results.
//
// Memory: what a part writes is allocated from the combined launch on, and what it reads
// is kept until then. That may raise the plan's peak by limits.more_peak_bytes in total.
// Inputs that are overwritten do not count.
//
// Returns how many kernels became parts. The caller renews the labels (kernel_labels.h).
// Deterministic. Linear in accesses and in the steps that parts move over, times the few
// launches that may still be joined.
int CombineNests(KernelPlan& plan, const Target& target,
                 const CombineLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

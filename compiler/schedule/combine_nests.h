#ifndef KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_
#define KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

struct CombineLimits {
  // Arguments of a kernel. The CPU has no such limit; it uses the same number so
  // that plans of different targets differ less.
  size_t arguments = kMaxKernelArguments;
  // Different bodies. Each is compiled, and the kernel needs as many registers
  // as the largest of them.
  size_t bodies = 4;
  // Loops of all different bodies together; equal parts share a loop.
  int loops = 64;
  // A kernel of more points, at the hints, may have a launch of its own.
  int64_t small_points = kLaunchBoundPoints;
  // Bytes by which the plan's peak of memory may grow, at the hints.
  int64_t more_peak_bytes = 64 << 10;
};

// Combines pointwise kernels with different iteration spaces into one launch,
// where none depends on another, directly or not: an optimizer's step, say,
// starts as one kernel for each parameter, and autocast casts each weight.
//
// Decides which kernels become parts of which launch, in the order of the plan.
// Parts with one axis all get the same vector width, so that a size that is not
// a multiple of it needs no code of its own. A larger kernel joins only if the
// price of that mapping exceeds that of its own by less than a launch.
// Kernels that are not pointwise, draw random numbers, scan or add atomically
// stay apart. A kernel without a partner is not changed.
//
// All parts run at the place of the first one. A kernel joins only if what it
// reads has been computed by then, so no other step moves. Parts whose results no
// step reads, like gradients, may run at the place of the last one instead.
// Elsewhere than where it stood, a kernel of many points (limits.small_points)
// finds less in the cache, or leaves less there: on a GPU it moves if reading that
// from memory takes less time than the launch; on a CPU it stays where results of
// its own are read.
//
// What a part writes stays allocated from the combined launch on, and what it
// reads until then. That may raise the plan's peak by limits.more_peak_bytes in
// all. Inputs that are overwritten do not count.
//
// A kernel prefers parts with an equal body (kernel_fingerprint.h): those add no
// code.
//
// Returns how many kernels became parts. The caller renews the labels
// (kernel_labels.h). Pure. Linear in accesses and in the steps that parts move
// over, times the few kernels that are still open.
int CombineNests(KernelPlan& plan, const Target& target,
                 const CombineLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

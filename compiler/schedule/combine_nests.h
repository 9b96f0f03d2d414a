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
  // Bytes that one combined kernel may keep allocated for longer, at the hints.
  int64_t held_bytes = 64 << 10;
};

// Combines pointwise kernels with different iteration spaces into one launch,
// where none depends on another, directly or not: an optimizer's step, say,
// starts as one kernel for each parameter.
//
// Decides which kernels become parts of which launch, in the order of the plan.
// Parts with one axis all get the same vector width, so that a size that is not
// a multiple of it needs no code of its own. A larger kernel joins only if the
// price of that mapping exceeds that of its own by less than a launch.
// Kernels that are not pointwise, draw random numbers, scan or add atomically
// stay apart. A kernel without a partner is not changed.
//
// All parts run at the place of the first one. A kernel joins only if what it
// reads has been computed by then, so no other step moves. Running earlier is
// free for a kernel of few points (limits.small_points), and for one whose
// results no step of this plan reads: then no cache hit is lost.
//
// What a part writes stays allocated from the combined launch on.
// limits.held_bytes bounds the temporaries and outputs that are held longer.
// Inputs that are overwritten do not count. Nor do outputs if only parts stood
// between, unless the part reads more bytes of temporaries than that, which die
// with it.
//
// A kernel prefers parts with an equal body (kernel_fingerprint.h): those add no
// code.
//
// Returns how many kernels became parts. The caller renews the labels
// (kernel_labels.h). Pure. Linear in accesses, times the few kernels that are
// still open.
int CombineNests(KernelPlan& plan, const Target& target,
                 const CombineLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

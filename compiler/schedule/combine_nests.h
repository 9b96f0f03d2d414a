#ifndef KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_
#define KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_price.h"

namespace kiln {

struct CombineLimits {
  // Arguments of a kernel. The CPU has no such limit; the same number is used for it
  // so that plans differ less between targets.
  size_t arguments = kMaxKernelArguments;
  // Different bodies: each is compiled, and the kernel takes the registers of
  // the greediest.
  size_t bodies = 4;
  // Loops of different bodies together; equal parts are one loop of the code.
  int loops = 64;
  // Kernels of more points, at the hints, are worth their own launch.
  int64_t small_points = kLaunchBoundPoints;
  // Bytes of memory that one combined kernel may keep alive longer, at the hints.
  int64_t held_bytes = 64 << 10;
};

// Puts pointwise kernels of different spaces into one launch where none depends
// on another by any path: the parameters of an optimizer's step, which are as
// many kernels as there are parameters before.
//
// Decides: which kernels are parts of which, their order (that of the plan),
// and the vector width of parts with one axis, so that those whose size is no
// multiple of it are the same code as the others.
// Leaves alone: kernels that are not pointwise, draw random numbers, scan or add
// atomically. A kernel without a partner is not changed.
//
// A part runs where the first of its kernel stood: it only joins when what it
// waits for is done by then, so nothing else moves. That is free where either
// few points wait for the launch (limits.small_points), or no step of this plan reads
// what it writes, so that moving it cannot cost a cache hit.
//
// What a part writes is held from then on: temporaries and outputs together are
// bounded (limits.held_bytes). Inputs that are overwritten cost nothing, nor do
// outputs when only parts stood between, which a part that reads much of
// temporaries may not claim: they die with it.
//
// A kernel joins parts of equal body (kernel_fingerprint.h) first: those cost
// the compiler nothing.
//
// Returns how many kernels became parts. Labels are the caller's business
// (kernel_labels.h). Pure. Linear in accesses, times a few kernels that are
// still open.
int CombineNests(KernelPlan& plan, const CombineLimits& limits);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_COMBINE_NESTS_H_

#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Invariants of a KernelPlan, beyond those of its nests (loop_verifier.h).
// Breaking one is our bug.
//
//   K1  Buffers are flat: one dimension, stride 1.
//   K2  There is a placement for each buffer, and a temporary that a step
//       touches has a place in the arena, within its bytes (at the hints),
//       or memory of its own.
//   K3  Temporaries that live at once do not overlap, in the arena or by
//       sharing memory of their own, but for one that takes the memory of an
//       operand of its kernel in place. Donated inputs whose memory is taken
//       count as temporaries.
//   K4  Labels are unique.
//   K5  The numbers of a variant are positive, or 0 where that means none. Numbers
//       of threads that share work are powers of two, and a block has at most
//       1024 threads. A tile's axis exists and is not the last. A held row has room
//       for each of its groups.
//   K6  Only a kernel with reduction axes has a variant for reductions.
//   K7  A combined kernel has two parts or more, pointwise with as many threads
//       a block, and none touches what another one writes.
//   K8  A kernel has a workspace if and only if blocks share its outer points.
//   K9  A kernel with kSum stores is a row kernel that holds whole rows and has the
//       stretch of the stores; other kernels have no stretch.
//   K10 A cluster has at most eight blocks, and they share one row at a time.
//   K11 Blocks that share a scan take one outer point at a time.
//   K12 A tally has the nest's number of values, and a thread for each.
//   K13 A flash kernel has a variant for it; a part of a gradient, and no other, has
//       sums, whose queries are in blocks of 64 or 128, and are read 64 at most at a
//       time.
//   K14 Columns whose groups are peeled have vectors, one reduction axis, and a
//       multiple of the vector's width of threads below one another.
//   K15 A tile has whole groups along both axes. One whose groups are peeled has
//       vectors, and its border can follow those of all stores (tile_walks.h).
//
// INTERNAL with the number, what was found and what was expected. Quadratic in
// temporaries.
absl::Status VerifyKernelPlan(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

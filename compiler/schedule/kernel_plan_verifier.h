#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

#include "absl/status/status.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Invariants of a KernelPlan, in addition to those of its nests (loop_verifier.h). A plan
// that breaks one is a bug of ours.
//
//   K1  Buffers are flat: one dimension, stride 1.
//   K2  Each buffer has a placement. A temporary that a step touches lies in the arena,
//       within its bytes (with symbols at their hints), or has its own allocation.
//   K3  Temporaries that are live at the same time do not overlap, neither in the arena
//       nor by sharing an allocation, except that a result may be written in place of an
//       operand of its kernel. Donated inputs whose memory is taken count as temporaries.
//   K4  Labels are unique.
//   K5  The numbers of a variant are positive, or 0 if that means none. Numbers of threads
//       that share work are powers of two, and a block has at most 1024 threads. A tile's
//       axis exists and is not the last one. A held row has room for all of its groups.
//   K6  Kernels with reduction axes have variants for reductions, and no others do.
//   K7  A combined kernel has at least two parts. They are pointwise, with equally many
//       threads per block, and none touches a buffer that another one writes.
//   K8  A kernel has a workspace if and only if blocks share its outer points.
//   K9  A kernel with kSum stores is a row kernel that holds whole rows, and its stretch
//       is that of the stores. Other kernels have no stretch.
//   K10 A cluster has at most eight blocks, which share one row at a time.
//   K11 Blocks that share a scan take one outer point at a time.
//   K12 A tally has the nest's number of values, and a thread for each.
//   K13 A flash kernel has a variant for its part. A kernel of a gradient, and no other,
//       has sums; their queries come in blocks of 64 or 128, and at most 64 are read at a
//       time. Only the gradients of keys and values have sides.
//   K14 Columns whose groups are peeled have vectors and one reduction axis, and `down` is
//       a multiple of the vector's width.
//   K15 A tile has whole groups along both axes. If its groups are peeled, it has vectors,
//       and its border can follow the groups of all stores (tile_walks.h).
//   K16 Products have 1, 2 or 4 tiles, and their nest is a product of matrices
//       (matrix_product.h).
//   K17 A thread that adds floats in blocks adds whole steps of them, and held rows are
//       one block. Only staged rows stage values that a row has once. Blocks of several
//       rows, and no others, join the sums of a stretch, at most all held groups at once.
//
// Errors: INTERNAL with the number, what was found and what was expected. Quadratic in
// temporaries.
absl::Status VerifyKernelPlan(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_VERIFIER_H_

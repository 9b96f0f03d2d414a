#ifndef KILN_COMPILER_LOOP_EXACT_SUMS_H_
#define KILN_COMPILER_LOOP_EXACT_SUMS_H_

#include "absl/container/inlined_vector.h"
#include "compiler/loop/update.h"

namespace kiln {

// Sums of float updates whose result does not depend on the order of the updates. A first
// nest finds the largest magnitude that is added to each element. A second nest adds the
// updates as integers, in units of 2^-31 of that magnitude's power of two. For float64 it
// also adds the remainders, in units of 2^-62. An element may have up to 2^31 updates. If
// an element gets infinities or NaNs, its integers count those instead.
//
// The nests write `largest`, the bits of the largest magnitude, and one or two buffers of
// integers.
struct ExactSums {
  DType dtype = DType::kFloat32;  // of the updates: float32 or float64
  BufferId largest = 0;
  absl::InlinedVector<BufferId, 2> sums;
};
absl::StatusOr<ExactSums> AddExactly(NodeLowering& n, WriteUpdate write);

// The sum for the result's element `at`, as a float64 node of `nest`.
ScalarId ReadSum(NestWriter& nest, const ExactSums& sums, const DimVector& at);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_EXACT_SUMS_H_

#ifndef KILN_COMPILER_LOOP_EXACT_SUMS_H_
#define KILN_COMPILER_LOOP_EXACT_SUMS_H_

#include "absl/container/inlined_vector.h"
#include "compiler/loop/update.h"

namespace kiln {

// Sums of float updates that do not depend on the order of the updates. A first
// nest finds the greatest magnitude that is added to each element. A second adds
// the updates as integers, in units of 2^-31 of that magnitude's power of two. For
// float64 it also adds what the first integers leave out, in units of 2^-62. An
// element may have 2^31 updates. An element that gets an infinity or a NaN has its
// integers count them instead.
//
// The nests leave `largest`, the bits of the greatest magnitude, and one or two
// buffers of integers.
struct ExactSums {
  DType dtype = DType::kFloat32;  // of the updates: float32 or float64
  BufferId largest = 0;
  absl::InlinedVector<BufferId, 2> sums;
};
absl::StatusOr<ExactSums> AddExactly(NodeLowering& n, WriteUpdate write);

// The sum at `at` of the result, as a float64 node of `nest`.
ScalarId ReadSum(NestWriter& nest, const ExactSums& sums, const DimVector& at);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_EXACT_SUMS_H_

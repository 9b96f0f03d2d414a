#ifndef KILN_COMPILER_LOOP_EXACT_SUMS_H_
#define KILN_COMPILER_LOOP_EXACT_SUMS_H_

#include "absl/container/inlined_vector.h"
#include "compiler/loop/update.h"

namespace kiln {

// Sums of float updates that do not depend on their order. A first nest finds the
// greatest magnitude that meets an element; a second adds the updates as integers
// in units of 2^-31 of that magnitude's power of two (float64: and again what
// that leaves, in units of 2^-62). 2^31 updates may meet. Infinities and NaN of
// either sign are counted in the units of an element that meets one.
//
// What the nests leave: `largest`, the bits of the greatest magnitude, and the
// integers, one buffer or two.
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

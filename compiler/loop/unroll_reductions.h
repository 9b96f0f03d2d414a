#ifndef KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_
#define KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_

#include <cstdint>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Writes reductions of fewer than `threshold` elements as expressions: the sum
// over three channels of a pixel becomes two additions. What is left is a
// pointwise nest, which is computed where it is read and fused as any other.
//
// Elements are combined in the order of the axes. Left alone: nests whose
// reduced extents are symbolic, that store at reduced points, that scan or
// sort, and reductions whose steps are no single operation (logsumexp, softmax,
// moments).
//
// Returns how many nests changed. Linear in the bodies, times `threshold`.
int UnrollReductions(LoopProgram& program, int64_t threshold);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_

#ifndef KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_
#define KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_

#include <cstdint>

#include "compiler/loop/loop_nest.h"

namespace kiln {

// Replaces reductions of fewer than `threshold` elements by expressions: the sum over
// the three channels of a pixel becomes two additions. The new nest is pointwise, so it
// can be inlined and fused like any other.
//
// Elements are combined in the order of the axes. Does not change nests whose reduced
// extents are symbolic, that store at reduced points, that load more than five values at
// each of them, or that scan or sort, nor reductions whose step is not a single operation
// (logsumexp, softmax, moments).
//
// Returns how many nests changed. Linear in the bodies, times `threshold`.
int UnrollReductions(LoopProgram& program, int64_t threshold);

}  // namespace kiln

#endif  // KILN_COMPILER_LOOP_UNROLL_REDUCTIONS_H_

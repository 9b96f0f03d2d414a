#ifndef KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_
#define KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Writes `combined` for `target`: each body once (combined_bodies.h), and an
// entry that deals the blocks, or the CPU's items, out to the parts in order.
//
// CUDA: all parts have as many threads a block; a part's blocks are those
// behind the blocks of the parts before it, and a block finds its part's
// arguments by bisection. Buffers that several parts name are one argument;
// sizes that are numbers stand in the text.
// CPU: the arguments of each part stand together, those of equal parts in a
// row, so that a part's are found by counting.
//
// Errors: of WriteKernel; INTERNAL for parts that schedule/ may not combine.
//
// Pure.
absl::StatusOr<KernelSource> WriteCombinedKernel(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_

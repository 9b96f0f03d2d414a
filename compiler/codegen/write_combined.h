#ifndef KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_
#define KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Writes `combined` for `target`: each body once (combined_bodies.h), and an entry point
// that assigns the blocks, or the CPU's items, to the parts in order.
//
// CUDA: all parts have equally many threads per block. The blocks of a part follow
// those of the parts before it, and a block finds its part's arguments by binary
// search. A buffer that several parts use is one argument. Constant sizes are in the
// text.
//
// CPU: the arguments of a part are contiguous, and those of parts with equal bodies
// follow one another, so that the arguments of a part are found by its number.
//
// Errors: of WriteKernel; INTERNAL for parts that schedule/ may not combine.
//
// Pure.
absl::StatusOr<KernelSource> WriteCombinedKernel(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes, const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_WRITE_COMBINED_H_

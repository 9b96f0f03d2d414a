#ifndef KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_
#define KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_

// Writes a kernel as CUDA C++ without headers. proto/kernel_abi.h says how it is called.
//
// A thread accesses groups of neighbours along the variant's vector axis: up to 16
// bytes at once if the address is a multiple of that for all values of the symbols,
// otherwise element by element. All loads of a group come before their uses, so that
// they are in flight together. Pointwise and row kernels with many blocks are
// grid-stride loops, whose grid is limited at launch
// (LaunchStep.blocks_per_multiprocessor). The order of computations depends on shapes
// and not on the chip, except that atomic stores have no fixed order.

#include "absl/status/status.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Sets the text (with kSymbolPlaceholder as the name), grid with its bound, block and
// shared_bytes of `source`. The caller has set waits_for_work_before. Errors:
// UNSUPPORTED_OP names what this writer does not support.
absl::Status WriteCudaKernel(const PlannedKernel& kernel,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             NestFacts facts, KernelSource& source);

// Writes a pointwise kernel as a device function `name`, for one part of a combined
// kernel. The function takes the part's arguments, without a seed, and `block`, the
// number of the block within the part. Sets text, grid and block of `source`. Errors:
// as WriteCudaKernel.
absl::Status WriteCudaFunction(const PlannedKernel& kernel,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes, const Target& target,
                               const NestFacts& facts, absl::string_view name,
                               KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_

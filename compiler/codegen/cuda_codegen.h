#ifndef KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_
#define KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_

// Writes a kernel as header-free CUDA C++. kernel_abi.h says how it is called.
//
// A thread moves groups of neighbours on the variant's vector axis, in accesses of
// up to 16 bytes where the address is a multiple of that for all values of the
// symbols, else element by element. All loads of a group are written before their
// uses, so that they are in flight together. Pointwise and row kernels are
// grid-stride loops; their grid is cut to the device at launch
// (LaunchStep.blocks_per_multiprocessor). Results depend on shapes alone: no order
// depends on the chip, and only stores of mode kAtomicAdd add atomically.

#include "absl/status/status.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// Fills text (with kSymbolPlaceholder for the name), grid with its bound, block
// and shared_bytes of `source`, whose waits_for_work_before is set already.
// UNSUPPORTED_OP names what the writer lacks.
absl::Status WriteCudaKernel(const PlannedKernel& kernel,
                             const std::vector<Buffer>& buffers,
                             const ShapeEnv& shapes, const Target& target,
                             NestFacts facts, KernelSource& source);

// A pointwise kernel as a device function `name`, for a kernel of several
// parts: it takes the kernel's arguments, without a seed, and `block`, the
// number of the block among those of its part. Fills text, grid and block of
// `source`. Errors: as WriteCudaKernel.
absl::Status WriteCudaFunction(const PlannedKernel& kernel,
                               const std::vector<Buffer>& buffers,
                               const ShapeEnv& shapes, const Target& target,
                               const NestFacts& facts, absl::string_view name,
                               KernelSource& source);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CUDA_CODEGEN_H_

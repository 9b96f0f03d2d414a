#ifndef KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_
#define KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

// Writes a kernel as header-free C++ in GNU vectors, to the ABI of
// proto/kernel_abi.h.
//
// The vector runs along the last reduced axis for Mapping::kRow, else along
// the last axis that is not reduced. Work is cut into items by shapes alone
// and an item is always computed by one thread in one order: no result
// depends on the number of threads.

#include "absl/status/statusor.h"
#include "compiler/codegen/nest_facts.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The definition, with kSymbolPlaceholder wherever the kernel's name stands.
// UNSUPPORTED_OP names what the CPU writer lacks.
absl::StatusOr<std::string> WriteCpuKernel(const PlannedKernel& kernel,
                                           const std::vector<Buffer>& buffers,
                                           const ShapeEnv& shapes,
                                           NestFacts facts);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

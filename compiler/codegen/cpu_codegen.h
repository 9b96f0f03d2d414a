#ifndef KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_
#define KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

// Writes a kernel as header-free C++ in GNU vectors, to the ABI of
// proto/kernel_abi.h.
//
// The vector runs along the last reduced axis for CpuRows and CpuScans, else along
// the last axis that is not reduced. Work is cut into items by shapes alone
// and an item is always computed by one thread in one order: no result
// depends on the number of threads.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The definition, with kSymbolPlaceholder wherever the kernel's name stands.
// UNSUPPORTED_OP names what the CPU writer lacks.
absl::StatusOr<std::string> WriteCpuKernel(const PlannedKernel& kernel,
                                           const std::vector<Buffer>& buffers,
                                           const ShapeEnv& shapes,
                                           NestFacts facts);

// A pointwise kernel as a function of one part of a kernel, `name`, that takes
// the part's KilnArguments and which of its items to do.
struct CpuFunction {
  std::string text;
  // Over the part's scalars s0, s1, ...: how many items there are, how many
  // points.
  std::string items;
  std::string points;
  int grain = 1;  // points that a thread takes at least
};
absl::StatusOr<CpuFunction> WriteCpuFunction(const PlannedKernel& kernel,
                                             const std::vector<Buffer>& buffers,
                                             const ShapeEnv& shapes,
                                             NestFacts facts,
                                             absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

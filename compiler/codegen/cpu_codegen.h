#ifndef KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_
#define KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

// Writes a kernel as C++ with GNU vectors and without headers. proto/kernel_abi.h says
// how it is called.
//
// Vectors run along the last reduced axis in CpuRows and CpuScans, otherwise along the
// last axis that is not reduced. Only shapes decide how work is split into items. One
// thread computes an item, always in the same order. So results do not depend on the
// number of threads.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

// The definition of the kernel, with kSymbolPlaceholder as its name. Errors:
// UNSUPPORTED_OP names what this writer does not support.
absl::StatusOr<std::string> WriteCpuKernel(const PlannedKernel& kernel,
                                           const std::vector<Buffer>& buffers,
                                           const ShapeEnv& shapes,
                                           NestFacts facts);

// A pointwise kernel as a function `name`, for one part of a combined kernel. It takes
// the part's KilnArguments and the range of items to compute.
struct CpuFunction {
  std::string text;
  // The numbers of items and of points, as expressions of the part's scalars s0, s1,
  // ...
  std::string items;
  std::string points;
  int grain = 1;  // the fewest points that a thread takes
};
absl::StatusOr<CpuFunction> WriteCpuFunction(const PlannedKernel& kernel,
                                             const std::vector<Buffer>& buffers,
                                             const ShapeEnv& shapes,
                                             NestFacts facts,
                                             absl::string_view name);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_CPU_CODEGEN_H_

#ifndef KILN_COMPILER_CODEGEN_KERNEL_SOURCE_H_
#define KILN_COMPILER_CODEGEN_KERNEL_SOURCE_H_

// The result of codegen for one kernel.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"
#include "compiler/schedule/nest_facts.h"

namespace kiln {

struct KernelSource {
  std::string
      symbol;  // "kiln_poi_fused_add_relu_5f0c9a…": the digest of its text, so equal kernels have equal names
  std::string text;  // the definition, without the prelude
  std::vector<KernelParam> params;
  // CUDA launch. Grid over symbols; empty on the CPU.
  std::vector<SymExpr> grid;  // three
  // grid[0] is limited to this times the multiprocessors of the device that launches the
  // kernel; 0: no limit.
  uint32_t blocks_per_multiprocessor = 0;
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  // See LaunchStep.programmatic_dependent_launch.
  bool waits_for_work_before = false;
};

// Writes `kernel` for `target`. Pure. `buffers` are the plan's.
absl::StatusOr<KernelSource> WriteKernel(const PlannedKernel& kernel,
                                         const std::vector<Buffer>& buffers,
                                         const ShapeEnv& shapes,
                                         const Target& target);

// Groups the kernels of a graph into translation units, each beginning with its prelude.
// The digests of kernels decide where a unit ends, so most units stay the same when the
// list of kernels changes. Long CUDA kernels are units of their own and come first. They
// are followed by the kernels that check indices, which share the code for their message.
struct UnitSource {
  std::string source;
  std::vector<std::string> symbols;
};
std::vector<UnitSource> GroupIntoUnits(const std::vector<KernelSource>& kernels,
                                       const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_SOURCE_H_

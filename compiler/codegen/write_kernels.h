#ifndef KILN_COMPILER_CODEGEN_WRITE_KERNELS_H_
#define KILN_COMPILER_CODEGEN_WRITE_KERNELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/kernel_source.h"
#include "compiler/config/target.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The sources of a plan's kernels, one for each step that launches one, in order.
//
// Kernels that differ only in their buffers and random streams, as in the layers of a
// model, are written once. The others are copies with their own buffers and streams as
// params.
//
// Errors: of WriteKernel, prefixed with the kernel's label.
//
// Pure. Linear in the bodies of the kernels.
absl::StatusOr<std::vector<KernelSource>> WriteKernels(const KernelPlan& plan,
                                                       const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_WRITE_KERNELS_H_

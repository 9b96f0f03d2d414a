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
// Kernels that are equal but for which buffers they name and which random
// streams they draw from (the twelve layers of a model) are written once; the
// others get a copy with their own buffers and streams in its parameters.
//
// Errors: of WriteKernel, with the kernel's label in front.
//
// Pure. Linear in the bodies of the kernels.
absl::StatusOr<std::vector<KernelSource>> WriteKernels(const KernelPlan& plan,
                                                       const Target& target);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_WRITE_KERNELS_H_

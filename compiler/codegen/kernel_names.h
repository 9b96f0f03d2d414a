#ifndef KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_
#define KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_

// What kernels are called. Profiles and traces are read by these names.

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// "kiln_poi_fused_add_cos_sin": poi pointwise, red reduction, per persistent
// reduction, for several that share a launch; then up to ten distinct operators
// in order.
std::string KernelStem(const PlannedKernel& kernel);
std::string KernelStem(const CombinedKernel& kernel);

// "kiln_poi_fused_add_cos_sin_0": unique in a plan whose kernels are numbered.
std::string KernelLabel(const PlannedKernel& kernel, int number);

// "kiln_poi_fused_add_cos_sin_5f0c9a2b41d7": by the kernel's text, so that
// graphs share object code.
std::string KernelSymbol(const PlannedKernel& kernel, absl::string_view text);
std::string KernelSymbol(const CombinedKernel& kernel, absl::string_view text);

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_NAMES_H_

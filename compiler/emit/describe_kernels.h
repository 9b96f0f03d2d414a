#ifndef KILN_COMPILER_EMIT_DESCRIBE_KERNELS_H_
#define KILN_COMPILER_EMIT_DESCRIBE_KERNELS_H_

#include <vector>

#include "compiler/emit/build_launch_plan.h"

namespace kiln {

// Puts beside each kernel's source what people and metrics want to know of it:
// its text, once for equal kernels, and the bytes it moves.
//
//   sources  one for each step that launches a kernel, in order
//
// Pure.
std::vector<EmittedKernel> DescribeKernels(const KernelPlan& plan,
                                           std::vector<KernelSource> sources);

}  // namespace kiln

#endif  // KILN_COMPILER_EMIT_DESCRIBE_KERNELS_H_

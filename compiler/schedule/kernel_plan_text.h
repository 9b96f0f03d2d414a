#ifndef KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_

// Kernel plans as text: the loop text of each kernel with its tiling, and
// where buffers lie.
//
//   plan @bias_relu {
//     out buf2 : f32[2048]
//     arena buf1 at 0 bytes 8192
//     kernel kiln_poi_fused_add_relu_0 pointwise vector 4 threads 256 … {
//       nest add+relu [i0 in 2048] { … }
//     }
//     return view buf2 …
//     arena 8192 bytes, peak live 8192
//   }

#include <string>
#include <vector>

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

std::string ToText(const KernelPlan& plan);
std::string ToText(const PlannedKernel& kernel,
                   const std::vector<Buffer>& buffers);
std::string ToText(const KernelTiling& tiling);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_PLAN_TEXT_H_

#ifndef KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Labels each kernel of the current plan, for example "kiln_poi_fused_add_cos_sin_0". A
// label has the kind of kernel, up to ten of the operators that it came from (distinct,
// in alphabetical order, without operators on lists of tensors), and a number that makes
// it unique. If the client gave words of its own (client_words), those of the nodes that
// the kernel computes replace the operators.
//
//   poi  pointwise
//   red  a reduction that reads its rows in blocks
//   per  a reduction that holds its rows in registers ("persistent")
//   spl  a scan by many blocks
//   tem  a product, convolution or attention
//   for  kernels that share a launch, or a nest that came from operators on lists of
//        tensors only
void LabelKernels(KernelPlan& plan);

// The label of a step, which must launch a kernel.
const std::string& LabelOf(const PlannedStep& step);

// A label without its number.
absl::string_view StemOfLabel(absl::string_view label);

// Whether a nest came from operators on lists of tensors only.
bool ComesFromLists(const LoopNest& nest);

// The nodes of the client's graph that the kernels of a step compute, in order.
std::vector<uint32_t> ClientNodesOf(const PlannedStep& step);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

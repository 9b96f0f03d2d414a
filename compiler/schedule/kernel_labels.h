#ifndef KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Labels each kernel of `plan`, as it is now: "kiln_poi_fused_add_cos_sin_0", the kind
// of a kernel, then up to ten of the operators that it came from, each once, in
// alphabetical order, and a number that makes the label unique. Operators on lists of
// tensors are left out. Where the client has words of its own (client_words), those of
// the nodes that a kernel computes stand in place of operators.
//
//   poi  pointwise              red  a reduction that reads its rows in blocks
//   spl  a scan by many blocks  per  one that holds its rows
//   tem  a product, convolution or attention
//   for  several that share a launch, or a nest made of operators on lists of
//        tensors
void LabelKernels(KernelPlan& plan);

// The label of a step that launches a kernel.
const std::string& LabelOf(const PlannedStep& step);

// A label without its number.
absl::string_view StemOfLabel(absl::string_view label);

// Whether all of a nest came from operators on lists of tensors.
bool ComesFromLists(const LoopNest& nest);

// The nodes of the client's graph that a step with kernels computes, in order.
std::vector<uint32_t> ClientNodesOf(const PlannedStep& step);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#ifndef KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// "kiln_poi_fused_add_cos_sin": the kind of a kernel, then up to ten of the operators
// that it came from, each once, in alphabetical order. Operators on lists of tensors
// are left out.
//
//   poi  pointwise              red  a reduction that reads its rows in blocks
//   spl  a scan by many blocks  per  one that holds its rows
//   tem  a product, convolution or attention
//   for  several that share a launch, or a nest made of operators on lists of
//        tensors
std::string KernelStem(const PlannedKernel& kernel);
std::string KernelStem(const CombinedKernel& kernel);
std::string KernelStem(const FlashKernel& kernel);

// The label of a step that launches a kernel.
const std::string& LabelOf(const PlannedStep& step);

// Whether all of a nest came from operators on lists of tensors.
bool ComesFromLists(const LoopNest& nest);

// The nodes of the client's graph that a step with kernels computes, in order.
std::vector<uint32_t> ClientNodesOf(const PlannedStep& step);

// Labels each kernel of `plan`, as it is now, with its stem and a number that makes
// the label unique.
void LabelKernels(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

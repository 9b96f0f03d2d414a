#ifndef KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// "kiln_poi_fused_add_cos_sin": what a kernel does, then up to ten of the
// operators that it came from, each once, by the alphabet. Operators on lists of
// tensors name none.
//
//   poi  pointwise              red  a reduction that reads its rows in blocks
//   spl  a scan by many blocks  per  one that holds its rows
//   tem  a product, convolution or attention
//   for  several that share a launch, or what operators on lists of tensors came
//        to in one nest
std::string KernelStem(const PlannedKernel& kernel);
std::string KernelStem(const CombinedKernel& kernel);

// Whether all of a nest came from operators on lists of tensors.
bool ComesFromLists(const LoopNest& nest);

// Of the client's graph, the nodes that a step with kernels does work of, in
// order.
std::vector<uint32_t> ClientNodesOf(const PlannedStep& step);

// Labels each kernel of `plan` with what it is now: its stem and a number, which
// makes it unique.
void LabelKernels(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

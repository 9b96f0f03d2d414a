#ifndef KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// Names each kernel of `plan` by what it is now: "kiln_poi_fused_add_relu_0",
// poi pointwise, red reduction, per persistent reduction, for several that
// share a launch; up to ten operators; and its number, which makes it unique.
void LabelKernels(KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_LABELS_H_

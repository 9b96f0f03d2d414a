#ifndef KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_
#define KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_

#include <string>

#include "absl/strings/string_view.h"
#include "compiler/graph/graph.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The plan for a graph text on "sm_90" or a CPU level; a failed expectation
// and an empty plan when there is none.
KernelPlan PlanOf(absl::string_view graph_text, absl::string_view target);

// Expects the graph's loops after all graph passes, and its plans for CUDA and CPU with and without
// fusion, run point by point, to give what the reference gives.
void ExpectMeansTheSame(absl::string_view graph_text);

int NumKernels(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_

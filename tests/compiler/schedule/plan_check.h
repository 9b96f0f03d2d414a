#ifndef KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_
#define KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/graph/graph.h"
// Before the reference, whose function Store would hide its struct.
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/reference/run_reference.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The plan for a graph text on "sm_90" or a CPU level; a failed expectation
// and an empty plan when there is none.
KernelPlan PlanOf(absl::string_view graph_text, absl::string_view target);

// The same under any options and tuning decisions, after the graph's passes; and
// up to where its kernels get their variants.
KernelPlan PlanWith(absl::string_view graph_text, const PassEnv& env);
KernelPlan NestsWith(absl::string_view graph_text, const PassEnv& env);

// Inputs of the sizes that the hints say: floats in [-2, 2), integers 0 or 1.
// Equal graphs get equal inputs.
std::vector<RefValue> RandomInputs(const Graph& graph);

// How far each element may be off, relative to 1 + its size, and why.
double ToleranceOf(const Graph& graph);

// Expects equal dtype, sizes and strides, and elements within `tolerance`.
void ExpectClose(const RefValue& got, const RefValue& due, double tolerance,
                 const std::string& where);

// Expects the graph's loops after all graph passes, and its plans for CUDA and CPU without fusion, with kernels of
// at most 3 loops and as usual, run point by point, to give what the reference gives.
void ExpectMeansTheSame(absl::string_view graph_text);

int NumKernels(const KernelPlan& plan);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SCHEDULE_PLAN_CHECK_H_

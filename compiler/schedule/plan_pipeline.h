#ifndef KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_
#define KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/pass/pass_runner.h"
#include "compiler/schedule/config_space.h"
#include "compiler/schedule/kernel_plan.h"

namespace kiln {

// The passes over loops and over kernels, in order. plan_pipeline.cc gives the reasons
// for that order. kiln-opt runs the same tables.
absl::Span<const Pass<LoopProgram>> LoopPipeline();
absl::Span<const Pass<KernelPlan>> KernelPipeline();

// How the pass runner prints and verifies programs and plans. It does not verify plans:
// an incomplete one breaks the verifier's rules. The caller verifies the complete plan.
extern const IrInspection<LoopProgram> kLoopInspection;
extern const IrInspection<KernelPlan> kPlanInspection;

// Runs both pipelines on a loop program.
//
// Errors: INTERNAL if a step breaks an invariant of loop_verifier.h.
//
// Pure: equal arguments give equal plans.
absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program, const PassEnv& env,
                                       std::vector<PassRecord>& records);
absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program, const PassEnv& env);

// Runs the passes before the one that chooses variants. Measurements and ExplainVariants
// start from such a plan.
absl::StatusOr<KernelPlan> PlanNests(LoopProgram program, const PassEnv& env,
                                     std::vector<PassRecord>& records);

// The configurations of a kernel of such a plan. The arguments must outlive
// them.
absl::StatusOr<ConfigSpace> ConfigsOf(const PlannedKernel& kernel,
                                      const KernelPlan& plan,
                                      const PassEnv& env);

// Describes a plan of PlanNests, for people:
//
//   for each step with several ways (proto/base/tuned_line.h) its tuning key and the
//   decision; ExplainContractions has the reasons
//   for each kernel its tuning key, the decision in force or why it is ignored, and its
//   configurations with their prices, with a star at the one that choose_variants takes
//   for each library call with several algorithms its tuning key and the decision
absl::StatusOr<std::string> ExplainVariants(const KernelPlan& plan,
                                            const PassEnv& env);

// The next two functions take a result of LowerGraph, run LoopPipeline over it and
// describe what its passes decide, for people. Errors: of the passes.

// For each contraction, whether loops of ours or a library compute it, and why. Those
// that become loops come first.
absl::StatusOr<std::string> ExplainContractions(LoopProgram program,
                                                const PassEnv& env);

// The nests that inline_producers does not inline, then the pairs of nests that
// fuse_loops does not merge, each with the reason.
absl::StatusOr<std::string> ExplainFusion(LoopProgram program,
                                          const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

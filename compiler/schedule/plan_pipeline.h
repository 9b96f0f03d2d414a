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

// The passes over loops and over kernels, in order; plan_pipeline.cc says why in
// that order. kiln-opt walks the same tables.
absl::Span<const Pass<LoopProgram>> LoopPipeline();
absl::Span<const Pass<KernelPlan>> KernelPipeline();

// How the runner prints and verifies them. The caller verifies a plan when it is
// complete, since before it breaks the verifier's rules.
extern const IrInspection<LoopProgram> kLoopInspection;
extern const IrInspection<KernelPlan> kPlanInspection;

// Runs both pipelines: makes kernels of a loop program.
//
// Errors: INTERNAL when a step breaks an invariant of loop_verifier.h.
//
// Pure: equal arguments give equal plans.
absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program, const PassEnv& env,
                                       std::vector<PassRecord>& records);
absl::StatusOr<KernelPlan> PlanKernels(LoopProgram program, const PassEnv& env);

// The same up to the pass that chooses variants. Measurements start from such a plan,
// and ExplainVariants takes one.
absl::StatusOr<KernelPlan> PlanNests(LoopProgram program, const PassEnv& env,
                                     std::vector<PassRecord>& records);

// The configurations of a kernel of such a plan. The arguments must outlive
// them.
absl::StatusOr<ConfigSpace> ConfigsOf(const PlannedKernel& kernel,
                                      const KernelPlan& plan,
                                      const PassEnv& env);

// For each kernel of PlanNests' plan: the key of its tuning decisions, the
// decision in force and why it is ignored if it is, and its configurations with
// their prices, the one that choose_variants takes marked by a star. For each
// library call that has a choice its key, and the algorithm in force. First of all, the
// keys of the plan's ways (proto/base/tuned_line.h), and what was decided: contractions
// tell more.
absl::StatusOr<std::string> ExplainVariants(const KernelPlan& plan,
                                            const PassEnv& env);

// The next two take a program as LowerGraph gives it, run LoopPipeline over it and
// tell what its passes decide. Errors: of the passes.

// Who computes each contraction, and why: those that become loops of ours, then
// the calls that are left at the end.
absl::StatusOr<std::string> ExplainContractions(LoopProgram program,
                                                const PassEnv& env);

// The nests that inline_producers does not compute where they are read, then the
// pairs of nests that fuse_loops leaves apart, each with the reason.
absl::StatusOr<std::string> ExplainFusion(LoopProgram program,
                                          const PassEnv& env);

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_PLAN_PIPELINE_H_

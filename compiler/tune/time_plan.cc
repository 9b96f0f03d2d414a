#include "compiler/tune/time_plan.h"

#include "absl/status/status.h"
#include "compiler/codegen/write_kernels.h"
#include "compiler/tune/measure_call.h"
#include "compiler/tune/time_kernel.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<TimedPlan> TimedPlan::Build(const KernelPlan& plan,
                                           const Target& target,
                                           Toolchain& toolchain) {
  ASSIGN_OR_RETURN(const std::vector<KernelSource> sources,
                   WriteKernels(plan, target));
  std::vector<Step> steps;
  size_t launches = 0;
  for (const PlannedStep& step : plan.steps) {
    if (const auto* call = std::get_if<LibraryCall>(&step)) {
      steps.emplace_back(TimedCallOf(*call, plan, target));
    } else if (IsLaunch(step)) {
      ASSIGN_OR_RETURN(
          TimedKernel kernel,
          BuildTimedKernel(sources.at(launches++), plan, target, toolchain));
      steps.emplace_back(std::move(kernel));
    } else {
      return absl::InternalError(
          "time a plan: found a fill, expected kernels and library calls");
    }
  }
  return TimedPlan(std::move(steps));
}

absl::StatusOr<double> TimedPlan::Seconds(int repeats,
                                          Stopwatch& stopwatch) const {
  double seconds = 0;
  for (const Step& step : steps_) {
    ASSIGN_OR_RETURN(const double its, std::visit(
                                           [&](const auto& timed) {
                                             return stopwatch.MedianSeconds(
                                                 timed, repeats);
                                           },
                                           step));
    seconds += its;
  }
  return seconds;
}

}  // namespace kiln

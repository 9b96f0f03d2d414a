#include "compiler/tune/time_plan.h"

#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/write_kernels.h"
#include "compiler/tune/measure_call.h"
#include "compiler/tune/time_kernel.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<double> TimePlan(const KernelPlan& plan, const Target& target,
                                int repeats, Toolchain& toolchain,
                                Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(const std::vector<KernelSource> sources,
                   WriteKernels(plan, target));
  double seconds = 0;
  size_t launches = 0;
  for (const PlannedStep& step : plan.steps) {
    if (const auto* call = std::get_if<LibraryCall>(&step)) {
      ASSIGN_OR_RETURN(
          const double its,
          stopwatch.MedianSeconds(TimedCallOf(*call, plan, target), repeats));
      seconds += its;
    } else if (IsLaunch(step)) {
      ASSIGN_OR_RETURN(const double its,
                       TimeKernel(sources.at(launches++), plan, target, repeats,
                                  toolchain, stopwatch));
      seconds += its;
    } else {
      return absl::InternalError("time a plan: it has a fill");
    }
  }
  return seconds;
}

}  // namespace kiln

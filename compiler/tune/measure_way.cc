#include "compiler/tune/measure_way.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/nest_price.h"
#include "compiler/schedule/step_ways.h"
#include "compiler/tune/time_plan.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::StatusOr<std::vector<StepWay>> Chosen(
    std::vector<StepWay> ways, absl::string_view key,
    const std::vector<std::string>& choices) {
  if (choices.empty()) return ways;
  std::vector<StepWay> chosen;
  for (const std::string& choice : choices) {
    const size_t before = chosen.size();
    for (const StepWay& way : ways)
      if (way.name == choice) chosen.push_back(way);
    if (chosen.size() > before) continue;
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("measure ", key, ": no way of it is \"",
                                  absl::CEscape(choice), "\""));
  }
  return chosen;
}

// What a way that a step has without a decision may save beside its own time. Kernels of
// ours are fused with their neighbours, which spares a launch.
double SecondsSaved(const StepWay& way) {
  const bool own = std::all_of(
      way.plan.steps.begin(), way.plan.steps.end(),
      [](const PlannedStep& step) { return !KernelsOf(step).empty(); });
  return own ? kLaunchNs * 1e-9 : 0;
}

}  // namespace

absl::StatusOr<Measurement> MeasureWay(LoopProgram program, const PassEnv& env,
                                       absl::string_view key,
                                       const MeasureOptions& options,
                                       Toolchain& toolchain,
                                       Stopwatch& stopwatch) {
  ASSIGN_OR_RETURN(std::vector<StepWay> all,
                   WaysOfKey(std::move(program), env, key));
  if (all.empty()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("measure: no step of the graph has the key \"",
                     absl::CEscape(key), "\""));
  }
  ASSIGN_OR_RETURN(const std::vector<StepWay> ways,
                   Chosen(std::move(all), key, options.choices));
  std::vector<std::string> names;
  std::vector<absl::StatusOr<double>> seconds;
  for (const StepWay& way : ways) {
    absl::StatusOr<double> its =
        TimePlan(way.plan, env.target,
                 options.repeats > 0 ? options.repeats : kUsualRepeats,
                 toolchain, stopwatch);
    const bool lacking = ReasonOf(its.status()) == ErrorReason::kUnsupportedOp;
    if (lacking && options.choices.empty() && ways.size() > 1) continue;
    names.push_back(way.name);
    seconds.push_back(std::move(its));
    if (!seconds.back().ok()) break;
  }
  if (names.empty()) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat("measure ", key, ": no library takes any way of it"));
  }
  const bool has_first = names[0] == ways[0].name;
  return MeasureChoices(
      key, names, [&](size_t i) { return seconds[i]; },
      has_first ? SecondsSaved(ways[0]) : 0);
}

}  // namespace kiln

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
                     absl::StrCat("measure ", key, ": the step has no way \"",
                                  absl::CEscape(choice), "\""));
  }
  return chosen;
}

// What the step's default way may save beyond its own time: generated kernels are fused
// with their neighbours, which saves a launch.
double SecondsSaved(const StepWay& way) {
  const bool own = std::all_of(
      way.plan.steps.begin(), way.plan.steps.end(),
      [](const PlannedStep& step) { return !KernelsOf(step).empty(); });
  return own ? kLaunchNs * 1e-9 : 0;
}

// All ways are timed one after another, this often. So changes of the device's clock, and
// other work on it, affect all of them alike. A single way needs only one turn.
constexpr int kTurns = 3;

// A way and its time in each turn.
struct TimedWay {
  std::string name;
  absl::StatusOr<TimedPlan> plan;
  std::vector<double> seconds;
  absl::Status failed;  // the error of its build, or of its first failed turn

  double Median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double Spread() const {
    const auto [least, most] =
        std::minmax_element(seconds.begin(), seconds.end());
    return *most - *least;
  }
};

std::vector<TimedWay> TimeInTurns(const std::vector<StepWay>& ways,
                                  const Target& target, int repeats,
                                  Toolchain& toolchain, Stopwatch& stopwatch) {
  std::vector<TimedWay> timed;
  for (const StepWay& way : ways) {
    timed.push_back(
        {way.name, TimedPlan::Build(way.plan, target, toolchain), {}, {}});
    timed.back().failed = timed.back().plan.status();
  }
  const int turns = ways.size() > 1 ? kTurns : 1;
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t k = 0; k < timed.size(); ++k) {
      TimedWay& way = timed[turn % 2 == 0 ? k : timed.size() - 1 - k];
      if (!way.failed.ok()) continue;
      const absl::StatusOr<double> its =
          way.plan->Seconds((repeats + turns - 1) / turns, stopwatch);
      way.failed = its.status();
      if (its.ok()) way.seconds.push_back(*its);
    }
  }
  return timed;
}

// The seconds that another way must save to replace the first: what the first saves
// beyond its own time, or the spread of the turns of either, whichever is the most.
double LeastSaved(const StepWay& first, const std::vector<TimedWay>& timed) {
  const auto best = std::min_element(timed.begin(), timed.end(),
                                     [](const TimedWay& a, const TimedWay& b) {
                                       return a.Median() < b.Median();
                                     });
  return std::max({SecondsSaved(first), timed[0].Spread(), best->Spread()});
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
  std::vector<TimedWay> timed = TimeInTurns(
      ways, env.target, options.repeats > 0 ? options.repeats : kUsualRepeats,
      toolchain, stopwatch);
  if (options.choices.empty() && ways.size() > 1) {
    std::erase_if(timed, [](const TimedWay& way) {
      return ReasonOf(way.failed) == ErrorReason::kUnsupportedOp;
    });
  }
  if (timed.empty()) {
    return MakeError(
        ErrorReason::kUnsupportedOp,
        absl::StrCat(
            "measure ", key,
            ": no library on this machine supports a way of this step"));
  }
  std::vector<std::string> names;
  bool none_failed = true;
  for (const TimedWay& way : timed) {
    names.push_back(way.name);
    none_failed = none_failed && way.failed.ok();
  }
  const bool has_first = names[0] == ways[0].name;
  return MeasureChoices(
      key, names,
      [&](size_t i) -> absl::StatusOr<double> {
        if (!timed[i].failed.ok()) return timed[i].failed;
        return timed[i].Median();
      },
      none_failed&& has_first ? LeastSaved(ways[0], timed) : 0);
}

}  // namespace kiln

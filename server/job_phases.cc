#include "server/job_phases.h"

#include <algorithm>
#include <cstdint>

namespace kiln {

void JobPhases::Add(absl::string_view name, absl::string_view category,
                    SteadyTime from, SteadyTime to) {
  Add(name, category, from, to, /*row=*/0);
}

void JobPhases::Add(absl::string_view name, absl::string_view category,
                    SteadyTime from, SteadyTime to, uint32_t row) {
  wire::JobPhase phase;
  phase.set_name(std::string(name));
  phase.set_category(std::string(category));
  phase.set_start_us(absl::ToInt64Microseconds(Between(origin_, from)));
  phase.set_duration_us(absl::ToInt64Microseconds(Between(from, to)));
  phase.set_row(row);
  phases_.push_back(std::move(phase));
}

void JobPhases::AddPlanning(const wire::WorkReply& plan,
                            const WorkTimes& times) {
  Add("wait for a worker", "wait", times.asked, times.begun);
  SteadyTime from = times.begun;
  for (const wire::PassTiming& timing : plan.timings()) {
    const SteadyTime to =
        std::min(After(from, absl::Microseconds(timing.microseconds())),
                 std::max(from, times.ended));
    Add(timing.pass(), "pass", from, to);
    from = to;
  }
}

void JobPhases::AddBuilds(const std::vector<UnitBuild>& builds) {
  std::vector<const UnitBuild*> by_begin;
  for (const UnitBuild& build : builds) by_begin.push_back(&build);
  std::stable_sort(by_begin.begin(), by_begin.end(),
                   [](const UnitBuild* a, const UnitBuild* b) {
                     return a->times.begun < b->times.begun;
                   });
  std::vector<SteadyTime> rows;  // until when each is taken
  for (const UnitBuild* build : by_begin) {
    const auto free = std::find_if(
        rows.begin(), rows.end(),
        [build](SteadyTime taken) { return taken <= build->times.begun; });
    const auto row = static_cast<uint32_t>(free - rows.begin());
    if (free == rows.end()) rows.emplace_back();
    rows[row] = build->times.ended;
    Add(build->kernels, "unit", build->times.begun, build->times.ended,
        row + 1);
  }
}

}  // namespace kiln

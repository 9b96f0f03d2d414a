#ifndef KILN_SERVER_JOB_PHASES_H_
#define KILN_SERVER_JOB_PHASES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/steady_time.h"
#include "proto/cache_entry.pb.h"
#include "proto/worker.pb.h"
#include "server/unit_builder.h"
#include "server/work_queue.h"

namespace kiln {

// What a job did and when. Its entry keeps it (JobPhase), for people who ask
// where the time of a compile went. Thread-compatible.
class JobPhases {
 public:
  // `origin`: when the job's first caller came. All times are after it.
  explicit JobPhases(SteadyTime origin) : origin_(origin) {}

  // A part of the job itself.
  void Add(absl::string_view name, absl::string_view category, SteadyTime from,
           SteadyTime to);

  // The wait for a worker, and the passes of the plan that it made. A worker
  // tells how long a pass took and not when it began: they are put one behind
  // another, from the start of its work on.
  void AddPlanning(const wire::WorkReply& plan, const WorkTimes& times);

  // The units that workers built while this job waited, each in the first row
  // that is free. Units that were found have no phase.
  void AddBuilds(const std::vector<UnitBuild>& builds);

  std::vector<wire::JobPhase> Take() { return std::move(phases_); }

 private:
  void Add(absl::string_view name, absl::string_view category, SteadyTime from,
           SteadyTime to, uint32_t row);

  const SteadyTime origin_;
  std::vector<wire::JobPhase> phases_;
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_PHASES_H_

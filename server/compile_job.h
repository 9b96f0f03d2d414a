#ifndef KILN_SERVER_COMPILE_JOB_H_
#define KILN_SERVER_COMPILE_JOB_H_

#include "absl/status/statusor.h"
#include "cache/artifact_cache.h"
#include "proto/base/key_ring.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/job_phases.h"
#include "server/job_table.h"
#include "server/pass_times.h"
#include "server/unit_builder.h"
#include "server/worker_pool.h"

namespace kiln {

// The walk of one job: from a task to a stored, signed artifact.
// Thread-safe; one call a runner.
class CompileJob {
 public:
  // All outlive this.
  struct Rooms {
    JobTable& jobs;
    WorkerPool& pool;
    UnitBuilder& units;
    ArtifactCache& cache;
    const KeyRing& keys;
    Counters& counters;
    PassTimes& pass_times;
  };

  explicit CompileJob(const Rooms& rooms) : rooms_(rooms) {}

  // Errors: those of the worker's planning and building. One that can't be
  // stored is an artifact all the same.
  absl::StatusOr<CompiledArtifact> Run(Job& job);

 private:
  absl::StatusOr<wire::CompilePlan> Plan(Job& job, JobPhases& phases);
  absl::StatusOr<BuiltUnits> Build(Job& job, const wire::CompilePlan& plan);
  void Store(Job& job, const CompiledArtifact& made,
             const wire::CompilePlan& plan, JobPhases phases);

  const Rooms rooms_;
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_JOB_H_

#ifndef KILN_SERVER_COMPILE_FLOW_H_
#define KILN_SERVER_COMPILE_FLOW_H_

#include <memory>

#include "absl/status/statusor.h"
#include "cache/artifact_cache.h"
#include "cache/tuning_cache.h"
#include "proto/compile_service.pb.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/job_table.h"
#include "server/waiter.h"
#include "server/worker_pool.h"

namespace kiln {

// The walk of one request through the daemon. Thread-safe.
class CompileFlow {
 public:
  // All outlive this.
  CompileFlow(const WorkerPool& pool, const TuningCache& tuning,
              ArtifactCache& cache, JobTable& jobs, Counters& counters)
      : pool_(pool),
        tuning_(tuning),
        cache_(cache),
        jobs_(jobs),
        counters_(counters) {}

  // Finds or makes the artifact for `request`; blocks until it is there, the
  // waiter's deadline passes or its caller goes. `sink` hears of the job.
  //
  // Errors: those of proto/compile_service.proto.
  absl::StatusOr<wire::CompileResult> Run(const wire::CompileRequest& request,
                                          std::shared_ptr<Waiter> waiter,
                                          ProgressSink& sink);

  // Finds the artifact of a request by the request's digest. Never compiles.
  //
  // INVALID_ARGUMENT BAD_OPTION: no digest of 32 bytes.
  absl::StatusOr<wire::LookupReply> Lookup(const wire::LookupRequest& request);

 private:
  using TaskPtr = std::shared_ptr<const CompileTask>;

  absl::StatusOr<wire::CompileResult> Serve(TaskPtr task,
                                            std::shared_ptr<Waiter> waiter,
                                            ProgressSink& sink);
  absl::StatusOr<wire::CompileResult> ServeWithout(
      const CompileTask& task, const wire::GuardSet& guards,
      std::shared_ptr<Waiter> waiter, ProgressSink& sink);
  absl::StatusOr<wire::CompileResult> ServeBySizes(
      const CompileTask& task, std::shared_ptr<Waiter> waiter,
      ProgressSink& sink);

  const WorkerPool& pool_;  // says who compiles
  const TuningCache& tuning_;
  ArtifactCache& cache_;
  JobTable& jobs_;
  Counters& counters_;
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_FLOW_H_

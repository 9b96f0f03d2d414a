#include "server/job_runners.h"

#include <memory>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace kiln {

JobRunners::JobRunners(int count, JobQueue& queue, JobTable& table,
                       CompileJob& job, JobLeases* leases)
    : queue_(queue), table_(table), job_(job), leases_(leases) {
  queue_.ShareRunners(count);
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Loop(); });
}

JobRunners::~JobRunners() {
  for (std::thread& thread : threads_) thread.join();
}

void JobRunners::Loop() {
  while (const std::shared_ptr<Job> job = queue_.Pop()) {
    if (leases_ == nullptr || leases_->MayRun(job)) {
      if (table_.Begin(*job)) RunOne(*job);
      if (leases_ != nullptr) leases_->Done(*job);
    }
    queue_.Done(*job);
  }
}

void JobRunners::RunOne(Job& job) {
  const LogScope scope({{"job", job.id}, {"key", job.task->key.ShortHex()}});
  const SteadyTime begun = SteadyNow();
  absl::StatusOr<CompiledArtifact> made = job_.Run(job);
  JobOutcome outcome = {.status = made.status()};
  if (made.ok()) {
    LogInfo("compile.done",
            {{"graph", job.graph_name},
             {"queue_ms", absl::ToInt64Milliseconds(Between(job.begun, begun))},
             {"plan_ms", absl::ToInt64Milliseconds(made->planned)},
             {"build_ms", absl::ToInt64Milliseconds(made->built)},
             {"total_ms", absl::ToInt64Milliseconds(Since(job.begun))},
             {"units_built", made->units_built},
             {"units_cached", made->units_cached}});
    outcome.artifact =
        std::make_shared<const CompiledArtifact>(*std::move(made));
  } else {
    LogWarning("compile.failed", {{"graph", job.graph_name},
                                  {"error", made.status().ToString()}});
  }
  table_.Finish(job, outcome);
}

}  // namespace kiln

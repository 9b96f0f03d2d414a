#include "server/job_runners.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "proto/base/log.h"

namespace kiln {

JobRunners::JobRunners(int count, JobQueue& queue, JobTable& table,
                       CompileJob& job)
    : queue_(queue), table_(table), job_(job) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Loop(); });
}

JobRunners::~JobRunners() {
  for (std::thread& thread : threads_) thread.join();
}

void JobRunners::Loop() {
  while (const std::shared_ptr<Job> job = queue_.Pop()) {
    if (table_.Begin(*job)) RunOne(*job);
  }
}

void JobRunners::RunOne(Job& job) {
  const LogScope scope({{"job", job.id}, {"key", job.task->key.ShortHex()}});
  const absl::Time begun = absl::Now();
  absl::StatusOr<CompiledArtifact> made = job_.Run(job);
  JobOutcome outcome = {.status = made.status()};
  if (made.ok()) {
    LogInfo("compile.done",
            {{"graph", job.graph_name},
             {"queue_ms", absl::ToInt64Milliseconds(begun - job.begun)},
             {"plan_ms", absl::ToInt64Milliseconds(made->planned)},
             {"build_ms", absl::ToInt64Milliseconds(made->built)},
             {"total_ms", absl::ToInt64Milliseconds(absl::Now() - job.begun)},
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

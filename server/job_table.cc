#include "server/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status.h"
#include "server/compile_task.h"

namespace kiln {

absl::StatusOr<JobShare> JobTable::RunOnce(
    const Digest& key, std::shared_ptr<const CompileTask> task,
    absl::string_view graph_name, const std::shared_ptr<Waiter>& waiter,
    ProgressSink& sink) {
  ASSIGN_OR_RETURN(const JobRole role,
                   Join(key, std::move(task), graph_name, waiter));
  while (true) {
    Waiter::News news = waiter->Next();
    if (!news.failure.ok()) {
      Leave(key, *waiter);
      return news.failure;
    }
    if (news.progress.has_value()) sink.Send(*news.progress);
    if (!news.outcome.has_value()) continue;
    RETURN_IF_ERROR(news.outcome->status);
    return JobShare{role, std::move(news.outcome->artifact)};
  }
}

absl::StatusOr<JobRole> JobTable::Join(const Digest& key,
                                       std::shared_ptr<const CompileTask> task,
                                       absl::string_view graph_name,
                                       std::shared_ptr<Waiter> waiter) {
  RETURN_IF_ERROR(waiter->StillWaits());
  MutexLock lock(&mu_);
  if (draining_) {
    return MakeError(ErrorReason::kDraining,
                     "kilnd: it ends and takes no more jobs");
  }
  // By the name under which its workers' end was told.
  RETURN_IF_ERROR(
      CheckNotPoisoned(key, task == nullptr ? key : task->key.digest));
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) {
    waiter->PostProgress(found->second->progress);
    found->second->waiters.push_back(std::move(waiter));
    counters_.Add(Count::kJobsJoined);
    return JobRole::kJoined;
  }
  const std::string id = absl::StrFormat("j-%04d", ++last_id_);
  auto job = std::make_shared<Job>(Job{.key = key,
                                       .id = id,
                                       .graph_name = std::string(graph_name),
                                       .task = std::move(task),
                                       .begun = clock_.Now(),
                                       .progress = {.job = id},
                                       .waiters = {waiter}});
  const absl::Status pushed = queue_.Push(job);
  if (!pushed.ok()) {
    counters_.Add(Count::kQueueFull);
    return pushed;
  }
  waiter->PostProgress(job->progress);
  jobs_.emplace(key, std::move(job));
  return JobRole::kLeader;
}

absl::Status JobTable::CheckNotPoisoned(const Digest& key, const Digest& name) {
  const absl::Time now = clock_.Now();
  std::erase_if(poisoned_until_,
                [now](const auto& entry) { return entry.second <= now; });
  const auto found = poisoned_until_.find(key);
  if (found == poisoned_until_.end()) return absl::OkStatus();
  counters_.Add(Count::kJobsPoisoned);
  return MakeError(
      ErrorReason::kJobPoisoned,
      absl::StrCat("job ", name.ShortHex(),
                   ": it ended two workers; it is not tried again before ",
                   absl::FormatDuration(
                       absl::Ceil(found->second - now, absl::Seconds(1))),
                   " have passed"));
}

void JobTable::Leave(const Digest& key, const Waiter& waiter) {
  std::shared_ptr<Job> dropped;  // ends outside of the lock
  MutexLock lock(&mu_);
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  std::erase_if(job.waiters, [&waiter](const auto& other) {
    return other.get() == &waiter;
  });
  if (!job.waiters.empty() || job.running) return;
  // Not in the queue any more: a runner is about to Begin it, and is told no.
  queue_.Remove(job);
  counters_.Add(Count::kJobsCancelled);
  dropped = std::move(found->second);
  jobs_.erase(found);
  if (jobs_.empty()) emptied_.SignalAll();
}

bool JobTable::Begin(Job& job) {
  MutexLock lock(&mu_);
  const auto found = jobs_.find(job.key);
  if (found == jobs_.end() || found->second.get() != &job) return false;
  job.running = true;
  counters_.Add(Count::kJobsStarted);
  return true;
}

void JobTable::Report(Job& job, JobStage stage, int done, int total) {
  MutexLock lock(&mu_);
  const JobProgress progress = {
      .stage = stage, .done = done, .total = total, .job = job.id};
  if (progress == job.progress) return;
  job.progress = progress;
  for (const auto& waiter : job.waiters) waiter->PostProgress(progress);
}

void JobTable::Finish(Job& job, const JobOutcome& outcome) {
  std::shared_ptr<Job> ended;  // ends outside of the lock
  MutexLock lock(&mu_);
  counters_.Add(outcome.status.ok() ? Count::kJobsDone : Count::kJobsFailed);
  if (ReasonOf(outcome.status) == ErrorReason::kWorkerDied) {
    poisoned_until_[job.key] = clock_.Now() + poison_time_;
  }
  for (const auto& waiter : job.waiters) waiter->PostOutcome(outcome);
  job.waiters.clear();
  const auto found = jobs_.find(job.key);
  if (found != jobs_.end() && found->second.get() == &job) {
    ended = std::move(found->second);
    jobs_.erase(found);
  }
  if (jobs_.empty()) emptied_.SignalAll();
}

void JobTable::Drain() {
  MutexLock lock(&mu_);
  draining_ = true;
}

bool JobTable::WaitUntilEmpty(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (!jobs_.empty()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    emptied_.WaitFor(&mu_, left);
  }
  return true;
}

std::vector<JobView> JobTable::Snapshot() const {
  const absl::Time now = clock_.Now();
  std::vector<JobView> views;
  MutexLock lock(&mu_);
  for (const auto& [key, job] : jobs_) {
    views.push_back({.id = job->id,
                     .task = job->task,
                     .graph_name = job->graph_name,
                     .running = job->running,
                     .progress = job->progress,
                     .age = now - job->begun,
                     .waiters = static_cast<int>(job->waiters.size())});
  }
  std::sort(views.begin(), views.end(), [](const JobView& a, const JobView& b) {
    return a.age != b.age ? a.age > b.age : a.id < b.id;
  });
  return views;
}

}  // namespace kiln

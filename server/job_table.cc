#include "server/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status.h"
#include "server/compile_task.h"

namespace kiln {

namespace {

// A job with at most so many waiters tells them itself, at once.
constexpr size_t kToldAtOnce = 16;

// Telling one waiter takes some 20 us: with this between, a tenth of a thread.
constexpr absl::Duration kTellGap = absl::Milliseconds(100);
constexpr absl::Duration kTellGapPerWaiter = absl::Microseconds(200);

}  // namespace

absl::StatusOr<std::shared_ptr<const CompileTask>> JobTable::Join(
    const Digest& key, std::shared_ptr<const CompileTask> task,
    absl::string_view graph_name, std::shared_ptr<Waiter> waiter) {
  RETURN_IF_ERROR(waiter->StillWaits());
  std::shared_ptr<Job> job;
  JobProgress progress;
  {
    MutexLock lock(&mu_);
    if (draining_) {
      return MakeError(ErrorReason::kDraining,
                       "kilnd: it ends and takes no more jobs");
    }
    const absl::Status tried = quarantine_.Check(key, waiter->CallerName());
    if (!tried.ok()) {
      counters_.Add(Count::kJobsPoisoned);
      return tried;
    }
    const auto found = jobs_.find(key);
    if (found != jobs_.end()) {
      job = found->second;
      job->waiters.push_back({waiter, JobRole::kJoined});
      counters_.Add(Count::kJobsJoined);
      if (!job->running && task != nullptr)
        queue_.Raise(*job, task->place.urgency);
    } else {
      const SteadyTime now = clock_.Steady();
      const std::string id = absl::StrFormat("j-%04d", ++last_id_);
      QueuePlace place = task == nullptr ? QueuePlace() : task->place;
      place.caller = waiter->CallerName();
      job = std::make_shared<Job>(Job{.key = key,
                                      .id = id,
                                      .graph_name = std::string(graph_name),
                                      .task = std::move(task),
                                      .begun = now,
                                      .caller = waiter->CallerName(),
                                      .progress = {.job = id},
                                      .waiters = {{waiter, JobRole::kLeader}},
                                      .told = now});
      const absl::Status pushed = queue_.Push(job, place);
      if (!pushed.ok()) {
        counters_.Add(Count::kQueueFull);
        return pushed;
      }
      jobs_.emplace(key, job);
      begun_.SignalAll();
    }
    progress = ProgressOf(*job);
  }
  // An outcome that came meanwhile ends the call, and this is not sent any more.
  waiter->OnProgress(EventOf(progress));
  return job->task;
}

JobProgress JobTable::ProgressOf(const Job& job) const {
  JobProgress progress = job.progress;
  progress.age = Between(job.begun, clock_.Steady());
  if (!job.running) progress.queue_position = queue_.PositionOf(job);
  return progress;
}

void JobTable::Leave(const Digest& key, const Waiter& waiter) {
  std::shared_ptr<Job> dropped;  // ends outside of the lock
  MutexLock lock(&mu_);
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  std::erase_if(job.waiters, [&waiter](const Job::Waiting& other) {
    return other.waiter.get() == &waiter;
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
  News news;
  {
    MutexLock lock(&mu_);
    const JobProgress progress = {
        .stage = stage, .done = done, .total = total, .job = job.id};
    if (progress == job.progress) return;
    job.progress = progress;
    job.told_all = false;
    if (job.waiters.size() > kToldAtOnce) return;
    news = NewsOf(job);
  }
  Tell(news);
}

void JobTable::TellWaiters() {
  std::vector<News> all;
  {
    MutexLock lock(&mu_);
    const SteadyTime now = clock_.Steady();
    for (const auto& [key, job] : jobs_) {
      const absl::Duration since = Between(job->told, now);
      const absl::Duration gap =
          kTellGap +
          kTellGapPerWaiter * static_cast<int64_t>(job->waiters.size());
      const bool due = since >= kHeartbeat || (!job->told_all && since >= gap);
      if (!due || job->waiters.empty()) continue;
      all.push_back(NewsOf(*job));
    }
  }
  for (const News& news : all) Tell(news);
}

JobTable::News JobTable::NewsOf(Job& job) {
  job.told_all = true;
  job.told = clock_.Steady();
  return {ProgressOf(job), job.waiters};
}

void JobTable::Tell(const News& news) {
  const SharedBytes event = EventOf(news.progress);
  for (const Job::Waiting& one : news.waiters) one.waiter->OnProgress(event);
}

bool JobTable::WaitForJobs(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (jobs_.empty()) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return false;
    begun_.WaitFor(&mu_, left);
  }
  return true;
}

void JobTable::Finish(Job& job, const JobOutcome& outcome) {
  if (on_end_ != nullptr) on_end_(job, outcome.status);
  std::vector<Job::Waiting> waiters;
  std::shared_ptr<Job> ended;
  {
    MutexLock lock(&mu_);
    counters_.Add(outcome.status.ok() ? Count::kJobsDone : Count::kJobsFailed);
    if (ReasonOf(outcome.status) == ErrorReason::kWorkerDied) {
      // By the name under which its workers' end was told.
      quarantine_.Add(
          job.key, {.key = job.task == nullptr ? job.key : job.task->key.digest,
                    .graph_name = job.graph_name,
                    .caller = job.caller,
                    .why = std::string(outcome.status.message())});
    }
    waiters.swap(job.waiters);
    const auto found = jobs_.find(job.key);
    if (found != jobs_.end() && found->second.get() == &job) {
      ended = std::move(found->second);
      jobs_.erase(found);
    }
    ++telling_;
  }
  for (const Job::Waiting& one : waiters)
    one.waiter->OnOutcome(one.role, outcome);
  MutexLock lock(&mu_);
  --telling_;
  if (jobs_.empty()) emptied_.SignalAll();
}

void JobTable::Drain() {
  MutexLock lock(&mu_);
  draining_ = true;
}

bool JobTable::WaitUntilEmpty(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (!jobs_.empty() || telling_ > 0) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return false;
    emptied_.WaitFor(&mu_, left);
  }
  return true;
}

std::vector<JobView> JobTable::Snapshot() const {
  const SteadyTime now = clock_.Steady();
  std::vector<JobView> views;
  MutexLock lock(&mu_);
  for (const auto& [key, job] : jobs_) {
    views.push_back({.id = job->id,
                     .task = job->task,
                     .graph_name = job->graph_name,
                     .running = job->running,
                     .progress = job->progress,
                     .age = Between(job->begun, now),
                     .waiters = static_cast<int>(job->waiters.size())});
  }
  std::sort(views.begin(), views.end(), [](const JobView& a, const JobView& b) {
    return BeganBefore(a.id, b.id);
  });
  return views;
}

bool BeganBefore(absl::string_view id, absl::string_view other) {
  // "j-9999" is before "j-10000".
  return id.size() != other.size() ? id.size() < other.size() : id < other;
}

}  // namespace kiln

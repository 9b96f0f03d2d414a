#ifndef KILN_SERVER_JOB_TABLE_H_
#define KILN_SERVER_JOB_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "server/counters.h"
#include "server/job_queue.h"
#include "server/quarantine.h"
#include "server/waiter.h"

namespace kiln {

// What a caller asks for, exactly; defined in compile_task.h.
struct CompileTask;

// One compile in flight. What is not const is the table's, under its lock.
struct Job {
  struct Waiting {
    std::shared_ptr<Waiter> waiter;
    JobRole role;
  };

  const Digest key;
  const std::string id;  // "j-0193"
  const std::string graph_name;
  const std::shared_ptr<const CompileTask> task;
  const SteadyTime begun;    // Clock::Steady
  const std::string caller;  // who began it

  bool running = false;
  JobProgress progress;
  std::vector<Waiting> waiters;
  bool told_all = true;  // waiters have heard of `progress`
  SteadyTime told;       // when, by Clock::Steady
};

// What `compilectl jobs` shows of one.
struct JobView {
  std::string id;
  std::shared_ptr<const CompileTask> task;
  std::string graph_name;
  bool running = false;
  JobProgress progress;
  absl::Duration age;
  int waiters = 0;
};

// Whether the job with this id began before the other one: ids count up.
bool BeganBefore(absl::string_view id, absl::string_view other);

// Waiters hear of their job at least this often.
inline constexpr absl::Duration kHeartbeat = absl::Seconds(3);

// Single flight: at most one job a key, with any number of waiters. A job
// outlives the caller that began it; queued, it ends when the last waiter
// leaves; running, it finishes and everybody who still waits gets the outcome.
//
// Thread-safe. Lock order: the table's, then the queue's or the
// quarantine's. Waiters are told outside
// of both.
class JobTable {
 public:
  // All outlive the table. A job that ended two workers goes to `quarantine`.
  JobTable(JobQueue& queue, const Clock& clock, Counters& counters,
           Quarantine& quarantine)
      : queue_(queue),
        clock_(clock),
        counters_(counters),
        quarantine_(quarantine) {}

  // Told of each job that is about to end, whoever still waits for it, on the thread
  // that ends it. Before the first job.
  using OnEnd = std::function<void(const Job& job, const absl::Status& status)>;
  void TellEnds(OnEnd on_end) { on_end_ = std::move(on_end); }

  // Puts `waiter` on the job of `key`, which is begun if there is none. The waiter
  // gets progress and one outcome, unless it leaves first. The task of the job,
  // which is the one given when this began it.
  //
  // Errors; the waiter is on no job then:
  //   RESOURCE_EXHAUSTED QUEUE_FULL    as job_queue.h
  //   ABORTED            JOB_POISONED  the job ended two workers lately, or
  //                                    too many of the caller's did
  //   UNAVAILABLE        DRAINING      after Drain; also for a job under way,
  //                                    since its outcome may come too late
  //   CANCELLED, DEADLINE_EXCEEDED     the waiter waits no more
  absl::StatusOr<std::shared_ptr<const CompileTask>> Join(
      const Digest& key, std::shared_ptr<const CompileTask> task,
      absl::string_view graph_name, std::shared_ptr<Waiter> waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The waiter gives up. Nothing happens when its job has ended.
  void Leave(const Digest& key, const Waiter& waiter) ABSL_LOCKS_EXCLUDED(mu_);

  // For runners: a popped job begins; false when it was cancelled meanwhile.
  bool Begin(Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  void Report(Job& job, JobStage stage, int done, int total)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The job ends: its waiters get `outcome` on this thread, and the next Join of
  // its key begins anew.
  void Finish(Job& job, const JobOutcome& outcome) ABSL_LOCKS_EXCLUDED(mu_);

  // Tells waiters how their jobs go: of jobs that went on, and of each job every
  // kHeartbeat. Few waiters were told by Report; many are told less often, so that
  // telling takes a small part of the time.
  void TellWaiters() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until there is a job, at most `timeout`. False: there is none.
  bool WaitForJobs(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // Refuses every Join from now on. Jobs that are there go on.
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  // Until no job is there and the waiters of all have their outcome. False when
  // `timeout` passed before.
  bool WaitUntilEmpty(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // In order of their beginning.
  std::vector<JobView> Snapshot() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What the waiters of a job are to be told.
  struct News {
    JobProgress progress;
    std::vector<Job::Waiting> waiters;
  };
  // The job's waiters count as told.
  News NewsOf(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void Tell(const News& news);

  // As it is now: a queued job's place changes without it.
  JobProgress ProgressOf(const Job& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  JobQueue& queue_;
  const Clock& clock_;
  Counters& counters_;
  Quarantine& quarantine_;
  OnEnd on_end_;  // may be empty

  mutable Mutex mu_;
  CondVar begun_;
  CondVar emptied_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  int64_t telling_ ABSL_GUARDED_BY(mu_) = 0;  // ended jobs' waiters, by threads
  int64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<Digest, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_TABLE_H_

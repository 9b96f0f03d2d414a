#ifndef KILN_SERVER_JOB_TABLE_H_
#define KILN_SERVER_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "server/counters.h"
#include "server/job_queue.h"
#include "server/waiter.h"

namespace kiln {

// What a caller asks for, exactly; defined in compile_task.h.
struct CompileTask;

// One compile in flight. What is not const is the table's, under its lock.
struct Job {
  const Digest key;
  const std::string id;  // "j-0193"
  const std::string graph_name;
  const std::shared_ptr<const CompileTask> task;
  const absl::Time begun;

  bool running = false;
  JobProgress progress;
  std::vector<std::shared_ptr<Waiter>> waiters;
};

enum class JobRole {
  kLeader,  // began the job
  kJoined,  // found it under way
};

// What a caller got of a job.
struct JobShare {
  JobRole role;
  std::shared_ptr<const CompiledArtifact> built;  // not null
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

// Single flight: at most one job a key, with any number of waiters. A job
// outlives the caller that began it; queued, it ends when the last waiter
// leaves; running, it finishes and everybody who still waits gets the outcome.
//
// Thread-safe. Lock order: the table's, then the queue's, then a waiter's.
class JobTable {
 public:
  // `queue`, `clock` and `counters` outlive the table. A job that ended two
  // workers is refused for `poison_time`.
  JobTable(JobQueue& queue, const Clock& clock, Counters& counters,
           absl::Duration poison_time)
      : queue_(queue),
        clock_(clock),
        counters_(counters),
        poison_time_(poison_time) {}

  // Joins or begins the job of `key` and waits for its outcome, telling `sink`
  // of its progress. Leaves the job when the waiter's deadline passes or its
  // caller goes.
  //
  // Errors: those of Join, of the job, and CANCELLED, DEADLINE_EXCEEDED.
  absl::StatusOr<JobShare> RunOnce(const Digest& key,
                                   std::shared_ptr<const CompileTask> task,
                                   absl::string_view graph_name,
                                   const std::shared_ptr<Waiter>& waiter,
                                   ProgressSink& sink) ABSL_LOCKS_EXCLUDED(mu_);

  // Puts `waiter` on the job of `key`, which is begun if there is none. The
  // waiter gets progress and one outcome, unless it leaves first.
  //
  // Errors; the waiter is on no job then:
  //   RESOURCE_EXHAUSTED QUEUE_FULL    as job_queue.h
  //   ABORTED            JOB_POISONED  the job ended two workers lately
  //   UNAVAILABLE        DRAINING      after Drain; also for a job under way,
  //                                    since its outcome may come too late
  //   CANCELLED, DEADLINE_EXCEEDED     the waiter waits no more
  absl::StatusOr<JobRole> Join(const Digest& key,
                               std::shared_ptr<const CompileTask> task,
                               absl::string_view graph_name,
                               std::shared_ptr<Waiter> waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The waiter gives up. Nothing happens when its job has ended.
  void Leave(const Digest& key, const Waiter& waiter) ABSL_LOCKS_EXCLUDED(mu_);

  // For runners: a popped job begins; false when it was cancelled meanwhile.
  bool Begin(Job& job) ABSL_LOCKS_EXCLUDED(mu_);
  void Report(Job& job, JobStage stage, int done, int total)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The job ends: its waiters get `outcome`, and the next Join of its key
  // begins anew.
  void Finish(Job& job, const JobOutcome& outcome) ABSL_LOCKS_EXCLUDED(mu_);

  // Refuses every Join from now on. Jobs that are there go on.
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);
  // False when jobs were left after `timeout`.
  bool WaitUntilEmpty(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // In order of their beginning.
  std::vector<JobView> Snapshot() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status CheckNotPoisoned(const Digest& key, const Digest& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  JobQueue& queue_;
  const Clock& clock_;
  Counters& counters_;
  const absl::Duration poison_time_;

  mutable Mutex mu_;
  CondVar emptied_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  int64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<Digest, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<Digest, absl::Time> poisoned_until_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_TABLE_H_

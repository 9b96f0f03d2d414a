#ifndef KILN_SERVER_WAITER_H_
#define KILN_SERVER_WAITER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// What a job makes; defined in compile_task.h. Here it is passed along only.
struct CompiledArtifact;

enum class JobStage { kQueued, kPlanning, kBuilding, kStoring };

// How far a job is.
struct JobProgress {
  JobStage stage = JobStage::kQueued;
  int done = 0;     // kernels, while building
  int total = 0;    // kernels
  std::string job;  // "j-0193"

  friend bool operator==(const JobProgress&, const JobProgress&) = default;
};

// How a job ended: `artifact` is set exactly when `status` is OK.
struct JobOutcome {
  absl::Status status;
  std::shared_ptr<const CompiledArtifact> artifact;
};

// Who is told of a job's progress: the caller's stream. One thread.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void Send(const JobProgress& progress) = 0;
};

// One caller that waits for a job: its mailbox. Jobs post into it, the caller's
// own cancellation too; the caller's thread reads. One thread reads, any post.
class Waiter {
 public:
  // Gives up at `deadline`, by the machine's clock.
  explicit Waiter(absl::Time deadline) : deadline_(deadline) {}

  // What came in. Exactly one member is set; a `failure` is final.
  struct News {
    std::optional<JobProgress> progress;
    std::optional<JobOutcome> outcome;
    absl::Status failure;  // CANCELLED, or DEADLINE_EXCEEDED
  };

  // Waits for news. Progress that was not read in time is replaced by later
  // progress; an outcome comes after all progress, and once.
  News Next() ABSL_LOCKS_EXCLUDED(mu_);

  void PostProgress(const JobProgress& progress) ABSL_LOCKS_EXCLUDED(mu_);
  void PostOutcome(JobOutcome outcome) ABSL_LOCKS_EXCLUDED(mu_);

  // The caller has gone.
  void Cancel() ABSL_LOCKS_EXCLUDED(mu_);
  bool cancelled() const ABSL_LOCKS_EXCLUDED(mu_);

  // OK while the caller waits; else CANCELLED or DEADLINE_EXCEEDED.
  absl::Status StillWaits() const ABSL_LOCKS_EXCLUDED(mu_);

  absl::Time deadline() const { return deadline_; }

 private:
  const absl::Time deadline_;
  mutable Mutex mu_;
  CondVar posted_;
  std::optional<JobProgress> progress_ ABSL_GUARDED_BY(mu_);
  std::optional<JobOutcome> outcome_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kiln

#endif  // KILN_SERVER_WAITER_H_

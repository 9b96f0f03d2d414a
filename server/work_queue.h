#ifndef KILN_SERVER_WORK_QUEUE_H_
#define KILN_SERVER_WORK_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/worker.pb.h"

namespace kiln {

// What goes with a request.
struct WorkLabel {
  Digest key;              // of the job, for people
  std::string graph_name;  // likewise
  wire::Target target;     // what the request's code is for
  // The target's compilers in the build that the answer is stored under; a
  // worker with others may not answer. Empty: any may.
  std::string toolchain;
  std::string cache_namespace;  // whose request it is
};

// What a worker process is for: it never works for another use.
struct WorkerUse {
  std::string cache_namespace;
  bool gpu = false;  // measures on one

  friend bool operator==(const WorkerUse&, const WorkerUse&) = default;
};

// One request on its way to a worker, and its answer. Thread-safe.
class PendingWork {
 public:
  PendingWork(wire::WorkRequest request, WorkLabel label)
      : request_(std::move(request)), label_(std::move(label)) {}

  // Waits until it is answered. Any number of threads may, any number of times.
  // The pool answers everything: what a worker has by its wall limit, twice at
  // most; what waits in the list after what is before it; and all at its end.
  // So a wait is bounded by (requests before it / workers + 2) wall limits.
  //
  // Errors: what the worker told of, with its reason; and
  //   UNAVAILABLE  WORKER_DIED  two workers ended or hung over it; the message
  //                             has the last one's stderr tail. Or: the
  //                             machine's compilers are others than those of
  //                             the label; the caller's key is out of date
  //   UNAVAILABLE  DRAINING     the pool ended first
  //   FAILED_PRECONDITION NO_TOOLCHAIN  no worker could be started, twice
  //   PERMISSION_DENIED PERMISSION      nor one in the jail that is due
  //   UNAVAILABLE  STORAGE      nor a scratch folder made for one
  // The reply lives as long as this.
  absl::StatusOr<const wire::WorkReply*> Wait() ABSL_LOCKS_EXCLUDED(mu_);

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);

  // The rest is for who works on it.
  void Answer(absl::StatusOr<wire::WorkReply> reply) ABSL_LOCKS_EXCLUDED(mu_);
  // Of the one thread that holds the request now: another attempt at it begins.
  int CountAttempt() { return ++attempts_; }

  const wire::WorkRequest& request() const { return request_; }
  const WorkLabel& label() const { return label_; }
  WorkerUse use() const;

 private:
  friend class WorkQueue;

  wire::WorkRequest request_;  // numbered by the queue, then fixed
  const WorkLabel label_;
  int attempts_ = 0;  // workers that had it and failed

  mutable Mutex mu_;
  CondVar answered_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<wire::WorkReply> reply_;  // fixed once done_
};

// What waits for a worker. Builds go before plans and measurements, so that what
// was begun is finished first. Thread-safe.
class WorkQueue {
 public:
  WorkQueue() = default;
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // The number of those that wait has no bound here: the job queue bounds jobs,
  // and CheckPlanSize a job's units.
  std::shared_ptr<PendingWork> Push(wire::WorkRequest request, WorkLabel label)
      ABSL_LOCKS_EXCLUDED(mu_);
  // For another attempt, before all that wait.
  void PutBack(std::shared_ptr<PendingWork> work) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for the first request. `use` is what the asking worker was for until
  // now, nothing for one that is new; while another that need not be started
  // anew for the request waits too, it is left to that one. Null at the end.
  std::shared_ptr<PendingWork> Take(const std::optional<WorkerUse>& use)
      ABSL_LOCKS_EXCLUDED(mu_);

  // From now on Take gives null; what is pushed, and what waits, is answered with
  // DRAINING.
  void End() ABSL_LOCKS_EXCLUDED(mu_);
  bool ended() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What the worker's process would need for the request, least first.
  enum class Fit { kOfSameUse, kNew, kOfOther };
  static Fit FitOf(const std::optional<WorkerUse>& worker,
                   const WorkerUse& request);

  using List = std::deque<std::shared_ptr<PendingWork>>;
  // Null when nobody waits; else the list that is next.
  List* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnotherFitsBetter(const std::optional<WorkerUse>& worker,
                         const WorkerUse& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  List builds_ ABSL_GUARDED_BY(mu_);
  List others_ ABSL_GUARDED_BY(mu_);
  // Of workers in Take.
  std::vector<const std::optional<WorkerUse>*> idle_ ABSL_GUARDED_BY(mu_);
};

absl::Status PoolEnded();

}  // namespace kiln

#endif  // KILN_SERVER_WORK_QUEUE_H_

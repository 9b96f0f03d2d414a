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
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "proto/worker.pb.h"
#include "server/turns.h"

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
  std::string caller = "";      // for whom; empty: nobody's
};

// "job 1f09ab: graph forward_0: ".
std::string JobWords(const WorkLabel& label);

// What a worker process is for: it never works for another use.
struct WorkerUse {
  std::string cache_namespace;
  bool gpu = false;  // measures on one

  friend bool operator==(const WorkerUse&, const WorkerUse&) = default;
};

// When a request was submitted, was taken by the worker that answered it, and was
// answered.
struct WorkTimes {
  SteadyTime asked;
  SteadyTime begun;
  SteadyTime ended;
};

// One request on its way to a worker, and its answer. Thread-safe.
class PendingWork {
 public:
  PendingWork(wire::WorkRequest request, WorkLabel label)
      : request_(std::move(request)), label_(std::move(label)) {
    times_.asked = SteadyNow();
  }

  // Waits until it is answered. Any number of threads may, any number of times.
  // The pool answers everything: what a worker has by its wall limit, twice at
  // most; what waits in the list after what is before it; and all at its end.
  // So a wait is bounded by (requests before it / workers + 2) wall limits.
  // Before it are those of its caller, and of others as many turns.
  //
  // Errors: those that the worker reported, with their reasons; and
  //   UNAVAILABLE  WORKER_DIED  two workers ended or hung over it; the message
  //                             has the last one's stderr tail
  //   UNAVAILABLE  DRAINING     the pool ended first
  //   FAILED_PRECONDITION NO_TOOLCHAIN  no worker could be started, twice. Or
  //                             CompilersWereReplaced: the machine's are others
  //                             than those of the label, and the caller's key is
  //                             out of date
  //   PERMISSION_DENIED PERMISSION      nor one in the required jail
  //   UNAVAILABLE  STORAGE      nor a scratch folder made for one
  // The reply lives as long as this.
  absl::StatusOr<const wire::WorkReply*> Wait() ABSL_LOCKS_EXCLUDED(mu_);

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);

  // Of one that is answered.
  WorkTimes times() const ABSL_LOCKS_EXCLUDED(mu_);

  // The rest is for who works on it.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
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

  bool taken_ = false;  // by a worker; the queue's to guard

  mutable Mutex mu_;
  CondVar answered_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  WorkTimes times_ ABSL_GUARDED_BY(mu_);
  absl::StatusOr<wire::WorkReply> reply_;  // fixed once done_
};

// What waits for a worker. Namespaces take turns, and in a namespace its callers do:
// whoever waits has its request taken after at most kMostInARow of each worker, and
// one of each other who waits.
// Of what a caller has waiting, builds go before plans and measurements, so that what
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
  // Another waits for the same request: it comes with the first turn of either.
  void Join(std::shared_ptr<PendingWork> work,
            const std::string& cache_namespace, const std::string& caller)
      ABSL_LOCKS_EXCLUDED(mu_);
  // For another attempt, before all that wait.
  void PutBack(std::shared_ptr<PendingWork> work) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for the first request. `use` is what the asking worker was for until
  // now, nothing for one that is new; while another that need not be started
  // anew for the request waits too, it is left to that one. Null at the end.
  //
  // Another namespace costs a worker a start. So one that had fewer than
  // kMostInARow requests `in_a_row` of its namespace has the next of those.
  static constexpr int kMostInARow = 8;
  std::shared_ptr<PendingWork> Take(const std::optional<WorkerUse>& use,
                                    int in_a_row = 0) ABSL_LOCKS_EXCLUDED(mu_);

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
  // What a caller has waiting.
  struct Lists {
    List builds;
    List others;
    bool empty() const { return builds.empty() && others.empty(); }
    List& next() { return builds.empty() ? others : builds; }
  };
  void Add(std::shared_ptr<PendingWork> work,
           const std::string& cache_namespace, const std::string& caller)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The request that is next; null when none waits.
  std::shared_ptr<PendingWork> Front() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes what Front gives out.
  void PopFront() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends no turn but of those who have nothing left.
  void DropTaken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnotherFitsBetter(const std::optional<WorkerUse>& worker,
                         const WorkerUse& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  List again_ ABSL_GUARDED_BY(mu_);  // for another attempt
  // By namespace and caller. What two wait for stands twice.
  Turns<Turns<Lists>> waiting_ ABSL_GUARDED_BY(mu_);
  // Of workers in Take.
  std::vector<const std::optional<WorkerUse>*> idle_ ABSL_GUARDED_BY(mu_);
};

absl::Status PoolEnded();

// What work gets whose compilers the machine has no more. No worker ended over it,
// and with a label of the compilers there are now it may be done.
// FAILED_PRECONDITION NO_TOOLCHAIN.
absl::Status CompilersReplaced(absl::string_view message);
bool CompilersWereReplaced(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_SERVER_WORK_QUEUE_H_

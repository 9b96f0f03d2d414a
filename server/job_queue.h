#ifndef KILN_SERVER_JOB_QUEUE_H_
#define KILN_SERVER_JOB_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "proto/base/mutex.h"
#include "server/fair_share.h"

namespace kiln {

struct Job;  // job_table.h

// How soon a job is wanted.
enum class Urgency {
  kInteractive,  // somebody waits: a rank that trains
  kBackground,   // wanted soon
  kPrewarm,      // may be wanted some day
};
inline constexpr int kUrgencies = 3;

// Where a job stands in the queue.
struct QueuePlace {
  Urgency urgency = Urgency::kInteractive;
  std::string cache_namespace;
  int64_t bytes = 0;        // of its request
  std::string caller = "";  // who began it; empty: nobody's
};

// What a queue may hold. A namespace gets more bytes only while it has less than
// three times what is left, a caller more jobs and bytes only while it has less than
// what is left, of jobs for its namespace.
struct QueueLimits {
  int64_t jobs_a_namespace = 256;
  int64_t jobs = 4096;
  int64_t bytes = int64_t{512} << 20;
};

// Jobs that wait for a runner. Of twenty-one that are popped while all three
// urgencies wait, sixteen are interactive, four background and one prewarm: none
// waits for ever. Among those of one urgency namespaces take turns, and in a
// namespace its callers do, so that who has a thousand jobs holds another's one job
// up by one; a caller's own come in order. Of the runners nobody has more than is left
// for others either: a job is passed over while its caller or namespace has its share.
// Thread-safe.
class JobQueue {
 public:
  explicit JobQueue(QueueLimits limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED QUEUE_FULL at a limit, naming it; DRAINING once closed.
  absl::Status Push(std::shared_ptr<Job> job, const QueuePlace& place)
      ABSL_LOCKS_EXCLUDED(mu_);

  // A job that was popped and is not begun is the next of its namespace again,
  // whatever the limits. DRAINING once closed.
  absl::Status PutBack(std::shared_ptr<Job> job, const QueuePlace& place)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Before the first Pop: so many pop, each anew after Done. Without this there is
  // no limit to what a caller has of them.
  void ShareRunners(int count) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for a job. Null once closed and empty.
  std::shared_ptr<Job> Pop() ABSL_LOCKS_EXCLUDED(mu_);
  // Whoever popped the job does nothing for it any more.
  void Done(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // False when a runner has it already.
  bool Remove(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // A job that is queued becomes as urgent as this, if it was less.
  void Raise(const Job& job, Urgency urgency) ABSL_LOCKS_EXCLUDED(mu_);

  // How many jobs are about to be popped up to this one, if nothing more is pushed:
  // 1 is the next; 0: not in the queue. Jobs of lesser urgencies, which take a turn
  // now and then, are not counted.
  int64_t PositionOf(const Job& job) const ABSL_LOCKS_EXCLUDED(mu_);

  // Takes no more; what is in it is still given out.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  int64_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Item {
    std::shared_ptr<Job> job;
    int64_t bytes;
    std::string caller;
    int64_t round = 0;  // each has one item of a caller
  };
  struct Held {
    int64_t jobs = 0;
    int64_t bytes = 0;
  };
  // The jobs of one urgency.
  struct Lane {
    std::map<std::string, std::deque<Item>> namespaces;  // none is empty
    std::deque<std::string> turns;                       // each of them once
    int64_t jobs = 0;
    int64_t pass = 0;  // the lane with the least is next
  };
  struct Found {
    int lane;
    std::string cache_namespace;
    size_t index;
  };

  // What a job that was popped holds of the runners.
  struct Running {
    FairShare::Part of_namespace;
    FairShare::Part of_caller;
  };
  struct Shares {
    explicit Shares(int runners);
    FairShare of_namespaces;
    FairShare of_callers;
  };
  // The first whose namespace and caller may have a runner; it has it then.
  bool FindNext(Found& found, Running& running)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool FindIn(int lane, Found& found, Running& running)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool FindOfAFreeCaller(const std::deque<Item>& items, size_t& index,
                         Running& running) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Find(const Job& job, Found& found) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Item Take(const Found& at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::deque<Item>& Open(int lane, const std::string& cache_namespace,
                         int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Behind what its caller has there.
  static void Insert(std::deque<Item>& items, Item item);
  // What a namespace has, and of that a caller (empty: all).
  Held HeldBy(const std::string& cache_namespace,
              const std::string& caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckRoom(const QueuePlace& place) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckShares(const QueuePlace& place, const Held& own) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const QueueLimits limits_;
  mutable Mutex mu_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  int64_t jobs_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t now_ ABSL_GUARDED_BY(mu_) = 0;  // the pass of the lane popped last
  std::array<Lane, kUrgencies> lanes_ ABSL_GUARDED_BY(mu_);
  std::optional<Shares> shares_ ABSL_GUARDED_BY(mu_);  // of the runners
  std::map<const Job*, Running> running_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_QUEUE_H_

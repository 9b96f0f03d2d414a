#ifndef KILN_SERVER_JOB_LEASES_H_
#define KILN_SERVER_JOB_LEASES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "cache/artifact_cache.h"
#include "cache/far/far_leases.h"
#include "cache/far/far_tier.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/counters.h"
#include "server/far_lookups.h"
#include "server/job_queue.h"
#include "server/job_table.h"

namespace kiln {

// Keeps two daemons that share a far store from compiling the same job at once.
// Whoever runs it has a lease in the store; the others set theirs aside, and ask
// again and again for the lease. Its holder gives it back behind its entry: who
// gets the lease then looks in the far store, and the job ends with what is there.
//
// Leases save work and promise nothing. One that is lost, a store that does not
// answer, a wait that takes too long: the job is compiled. A job that is set aside
// costs no runner and no worker, and ends when its last waiter leaves.
// Thread-safe.
class JobLeases {
 public:
  // All outlive the leases; the store of `tier` has leases. `lookups` answers
  // everybody before it ends, after End.
  struct Rooms {
    ArtifactCache& cache;
    FarTier& tier;
    FarLookups& lookups;
    JobTable& jobs;
    JobQueue& queue;
    Counters& counters;
  };

  // How long a holder that is gone holds others up.
  static constexpr absl::Duration kLife = absl::Seconds(5);

  // `wait`: how long a job is set aside at most.
  JobLeases(const Rooms& rooms, absl::Duration wait);
  JobLeases(const JobLeases&) = delete;
  JobLeases& operator=(const JobLeases&) = delete;
  ~JobLeases() { End(); }

  // For runners, of a job that was popped and is not begun: whether it is to be run
  // now. Else it comes back to the queue, or has ended with an entry of another
  // daemon's. Asks the far store, twice at most, each time within its budget.
  bool MayRun(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mu_);

  // The job has run, or nobody waited for it any more. What it stored is written
  // far before others get its lease.
  void Done(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // From now on nobody waits: jobs that are set aside go back to the queue. Before
  // the queue is closed.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // A job that may run.
  struct Pass {
    std::weak_ptr<Job> job;  // nobody's any more: all its waiters have left
    LeaseName name;
    std::string token;  // empty: without a lease
    SteadyTime renew;   // when it is looked after next
    SteadyTime ends;    // when the lease runs out, if it is not extended
  };
  // A job that is set aside.
  struct Aside {
    std::weak_ptr<Job> job;
    SteadyTime since;
    SteadyTime next;  // when the lease is asked for
    SteadyTime ends;  // when the wait does
  };
  // By the job's id.
  using Passes = std::map<std::string, Pass>;
  using Asides = std::map<std::string, Aside>;

  enum class Taken { kMine, kAnothers, kUnknown };
  Taken Take(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mu_);
  bool SetAside(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mu_);
  // To the queue, to run with the lease that it has, or with none.
  void PutBack(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mu_);
  // The job ends with a hit. False: it is of no use, and the job is as before.
  bool EndWith(Job& job, CacheAnswer hit, bool waited);
  void GiveBack(const LeaseName& name, const std::string& token);

  // What the thread does next.
  struct Step {
    SteadyTime due = SteadyTime::max();  // max: nothing
    std::string id;
    bool is_lease = false;  // of a pass; else of one that is set aside
  };
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  Step NextStep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Renew(const std::string& id) ABSL_LOCKS_EXCLUDED(mu_);
  void AskAgain(const std::string& id) ABSL_LOCKS_EXCLUDED(mu_);
  void LookFor(const std::shared_ptr<Job>& job) ABSL_LOCKS_EXCLUDED(mu_);

  const Rooms rooms_;
  FarLeases& leases_;
  const absl::Duration wait_;
  const std::string holder_;  // this daemon, among all there are
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  Passes passes_ ABSL_GUARDED_BY(mu_);
  Asides asides_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_LEASES_H_

#ifndef KILN_SERVER_QUARANTINE_H_
#define KILN_SERVER_QUARANTINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"

namespace kiln {

// A job that ended two workers.
struct QuarantinedJob {
  Digest key;  // by which people know it
  std::string graph_name;
  std::string caller;  // who began it
  std::string why;     // how the last worker ended
  SteadyTime until;    // by Clock::Steady
};

// Jobs that are not tried again for a while, and callers whose jobs keep ending
// workers: another cache tag makes another job, and the same caller.
//
// Holds a bounded number of each; what would end first makes way. Thread-safe.
class Quarantine {
 public:
  // Jobs of a caller that may end workers within `time`; after the last it may
  // begin none until `time` has passed.
  static constexpr int kJobsACaller = 8;
  static constexpr int kMaxJobs = 1024;
  static constexpr int kMaxCallers = 1024;

  // `clock` outlives it.
  Quarantine(const Clock& clock, absl::Duration time)
      : clock_(clock), time_(time) {}
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  // `caller`: an opaque name; nobody counts for an empty one.
  // ABORTED JOB_POISONED when the job `id` or the caller is refused; the message
  // names the job, its graph, and how to have it tried again.
  absl::Status Check(const Digest& id, absl::string_view caller)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The job `id` ended two workers; `job.until` is filled in.
  void Add(const Digest& id, QuarantinedJob job) ABSL_LOCKS_EXCLUDED(mu_);

  // The one that ends last first.
  std::vector<QuarantinedJob> List() ABSL_LOCKS_EXCLUDED(mu_);

  // Jobs whose key begins with `key_prefix_hex` (empty: all of them) may be tried
  // again, and so may their callers begin others. How many jobs there were.
  int Clear(absl::string_view key_prefix_hex) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct CallerCount {
    int jobs = 0;
    SteadyTime until;
  };

  void ForgetWhatHasPassed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Clock& clock_;
  const absl::Duration time_;
  Mutex mu_;
  std::map<Digest, QuarantinedJob> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, CallerCount, std::less<>> callers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_QUARANTINE_H_

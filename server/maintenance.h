#ifndef KILN_SERVER_MAINTENANCE_H_
#define KILN_SERVER_MAINTENANCE_H_

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "cache/cache_stack.h"
#include "proto/admin_service.pb.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Scrubs, verifications and compactions of the cache, one at a time, on a thread of
// their own: a caller begins one and asks how it goes. Thread-safe.
class Maintenance {
 public:
  // `cache` outlives this.
  explicit Maintenance(CacheStack& cache) : cache_(cache) {}
  // Stops what is under way.
  ~Maintenance() ABSL_LOCKS_EXCLUDED(mu_);

  // Begins the task unless it is under way already.
  //   FAILED_PRECONDITION  another one is
  absl::Status Begin(wire::MaintainRequest::Task task) ABSL_LOCKS_EXCLUDED(mu_);
  // What is under way is to end soon.
  void Stop() { stop_ = true; }
  // Of the task under way, or else the last one.
  wire::MaintainReply Report() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Run(wire::MaintainRequest::Task task) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Do(wire::MaintainRequest::Task task) ABSL_LOCKS_EXCLUDED(mu_);
  void Note(const ScrubReport& found) ABSL_LOCKS_EXCLUDED(mu_);

  CacheStack& cache_;
  std::atomic<bool> stop_{false};
  mutable Mutex mu_;
  wire::MaintainReply report_ ABSL_GUARDED_BY(mu_);
  SteadyTime begun_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_MAINTENANCE_H_

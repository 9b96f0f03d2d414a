#ifndef KILN_SERVER_JOB_QUEUE_H_
#define KILN_SERVER_JOB_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "proto/base/mutex.h"

namespace kiln {

struct Job;  // job_table.h

// Jobs that wait for a runner, first come, first served. Thread-safe.
class JobQueue {
 public:
  // Holds at most `limit` jobs, >= 1.
  explicit JobQueue(int64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED QUEUE_FULL at the limit; DRAINING once closed.
  absl::Status Push(std::shared_ptr<Job> job) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for a job. Null once closed and empty.
  std::shared_ptr<Job> Pop() ABSL_LOCKS_EXCLUDED(mu_);

  // False when a runner has it already.
  bool Remove(const Job& job) ABSL_LOCKS_EXCLUDED(mu_);

  // Takes no more; what is in it is still given out.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  int64_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const int64_t limit_;
  mutable Mutex mu_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_QUEUE_H_

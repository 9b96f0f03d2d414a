#ifndef KILN_SERVER_JOB_HERALD_H_
#define KILN_SERVER_JOB_HERALD_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"
#include "server/job_table.h"

namespace kiln {

// Has the table tell its waiters how their jobs go, on a thread of its own: those
// who do the jobs go on meanwhile. Thread-safe.
class JobHerald {
 public:
  // `table` outlives the herald.
  explicit JobHerald(JobTable& table)
      : table_(table), thread_([this] { Loop(); }) {}

  JobHerald(const JobHerald&) = delete;
  JobHerald& operator=(const JobHerald&) = delete;
  ~JobHerald();

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  bool EndsWithin(absl::Duration time) ABSL_LOCKS_EXCLUDED(mu_);

  JobTable& table_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it reads the members above
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_HERALD_H_

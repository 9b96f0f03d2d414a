#ifndef KILN_SERVER_JOB_RUNNERS_H_
#define KILN_SERVER_JOB_RUNNERS_H_

#include <thread>
#include <vector>

#include "server/compile_job.h"
#include "server/job_leases.h"
#include "server/job_queue.h"
#include "server/job_table.h"

namespace kiln {

// Threads that take jobs from the queue and run them: mostly they wait for workers.
// One caller has half of them when it is alone, which is to be a few more than there
// are workers: while one job's last unit is built, the next one is planned.
class JobRunners {
 public:
  // All outlive the runners. `leases` is null where no daemon shares a store.
  JobRunners(int count, JobQueue& queue, JobTable& table, CompileJob& job,
             JobLeases* leases);

  JobRunners(const JobRunners&) = delete;
  JobRunners& operator=(const JobRunners&) = delete;
  // Waits for the jobs under way and in the queue. Close the queue first.
  ~JobRunners();

 private:
  void Loop();
  void RunOne(Job& job);

  JobQueue& queue_;
  JobTable& table_;
  CompileJob& job_;
  JobLeases* const leases_;  // or null
  std::vector<std::thread> threads_;
};

}  // namespace kiln

#endif  // KILN_SERVER_JOB_RUNNERS_H_

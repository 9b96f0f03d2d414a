#include "server/job_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status JobQueue::Push(std::shared_ptr<Job> job) {
  MutexLock lock(&mu_);
  if (closed_) {
    return MakeError(ErrorReason::kDraining, "job queue: the daemon ends");
  }
  const int64_t size = static_cast<int64_t>(jobs_.size());
  if (size >= limit_) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("job queue: found ", size, " jobs that wait, at most ",
                     limit_, " are due; try again in a while"));
  }
  jobs_.push_back(std::move(job));
  changed_.Signal();
  return absl::OkStatus();
}

std::shared_ptr<Job> JobQueue::Pop() {
  MutexLock lock(&mu_);
  while (jobs_.empty() && !closed_) changed_.Wait(&mu_);
  if (jobs_.empty()) return nullptr;
  std::shared_ptr<Job> job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

bool JobQueue::Remove(const Job& job) {
  MutexLock lock(&mu_);
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    if (it->get() != &job) continue;
    jobs_.erase(it);
    return true;
  }
  return false;
}

void JobQueue::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  changed_.SignalAll();
}

int64_t JobQueue::size() const {
  MutexLock lock(&mu_);
  return static_cast<int64_t>(jobs_.size());
}

}  // namespace kiln

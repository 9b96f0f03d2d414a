#include "server/call_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace kiln {

CallExecutor::CallExecutor(int threads, int64_t queue_limit)
    : queue_limit_(queue_limit) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

CallExecutor::~CallExecutor() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status CallExecutor::Run(std::function<void()> work) {
  MutexLock lock(&mu_);
  const int64_t queued = static_cast<int64_t>(queue_.size());
  if (queued >= queue_limit_) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("kilnd: found ", queued,
                     " calls not looked at yet, at "
                     "most ",
                     queue_limit_, " are due; try again in a while"));
  }
  queue_.push_back(std::move(work));
  changed_.Signal();
  return absl::OkStatus();
}

void CallExecutor::WaitUntilIdle(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (busy_ > 0 || !queue_.empty()) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return;
    idle_.WaitFor(&mu_, left);
  }
}

void CallExecutor::Loop() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      ++busy_;
    }
    work();
    work = nullptr;  // what it holds ends outside of the lock
    MutexLock lock(&mu_);
    --busy_;
    if (busy_ == 0 && queue_.empty()) idle_.SignalAll();
  }
}

}  // namespace kiln

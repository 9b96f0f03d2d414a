#include "server/call_executor.h"

#include <utility>

#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace kiln {

CallExecutor::CallExecutor(int threads, const FairShare::Amount& limit)
    : shares_("calls not looked at yet, of caller", limit) {
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

absl::Status CallExecutor::Run(const std::string& caller, int64_t bytes,
                               std::function<void()> work) {
  ASSIGN_OR_RETURN(FairShare::Part part, shares_.Take(caller, bytes));
  MutexLock lock(&mu_);
  const auto [own, is_new] = queued_.try_emplace(caller);
  if (is_new) turns_.push_back(caller);
  own->second.push_back({std::move(part), std::move(work)});
  changed_.Signal();
  return absl::OkStatus();
}

CallExecutor::Work CallExecutor::Next() {
  const std::string caller = std::move(turns_.front());
  turns_.pop_front();
  const auto own = queued_.find(caller);
  Work next = std::move(own->second.front());
  own->second.pop_front();
  if (own->second.empty()) {
    queued_.erase(own);
  } else {
    turns_.push_back(caller);
  }
  return next;
}

void CallExecutor::WaitUntilIdle(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (busy_ > 0 || !turns_.empty()) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return;
    idle_.WaitFor(&mu_, left);
  }
}

void CallExecutor::Loop() {
  while (true) {
    Work work;
    {
      MutexLock lock(&mu_);
      while (turns_.empty() && !ending_) changed_.Wait(&mu_);
      if (turns_.empty()) return;
      work = Next();
      ++busy_;
    }
    work.function();
    work = {};  // what it holds ends outside of the lock
    MutexLock lock(&mu_);
    --busy_;
    if (busy_ == 0 && turns_.empty()) idle_.SignalAll();
  }
}

}  // namespace kiln

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
  queued_.Of(caller).push_back({std::move(part), std::move(work)});
  changed_.Signal();
  return absl::OkStatus();
}

CallExecutor::Work CallExecutor::Next() {
  std::deque<Work>& own = queued_.Next();
  Work next = std::move(own.front());
  own.pop_front();
  queued_.Pass();
  return next;
}

void CallExecutor::WaitUntilIdle(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (busy_ > 0 || !queued_.empty()) {
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
      while (queued_.empty() && !ending_) changed_.Wait(&mu_);
      if (queued_.empty()) return;
      work = Next();
      ++busy_;
    }
    work.function();
    work = {};  // what it holds ends outside of the lock
    MutexLock lock(&mu_);
    --busy_;
    if (busy_ == 0 && queued_.empty()) idle_.SignalAll();
  }
}

}  // namespace kiln

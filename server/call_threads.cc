#include "server/call_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// Idle threads that stay. More cost memory, fewer cost thread starts (20 us).
constexpr int64_t kIdleThreads = 4;

}  // namespace

CallThreads::~CallThreads() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

absl::Status CallThreads::Run(std::function<void()> call) {
  Sweep();
  MutexLock lock(&mu_);
  if (running_ >= limit_) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("calls: found ", running_, " that wait, expected at most ",
                     limit_, "; try again later"));
  }
  ++running_;
  calls_.push_back(std::move(call));
  if (threads_alive_ < running_) {
    ++threads_alive_;
    threads_.emplace_back([this] { Loop(); });
  } else {
    changed_.Signal();
  }
  return absl::OkStatus();
}

void CallThreads::Loop() {
  while (true) {
    std::function<void()> call;
    {
      MutexLock lock(&mu_);
      while (calls_.empty() && !ending_ &&
             threads_alive_ <= running_ + kIdleThreads) {
        changed_.Wait(&mu_);
      }
      if (calls_.empty()) {
        --threads_alive_;
        ended_.push_back(std::this_thread::get_id());
        return;
      }
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    call();
    call = nullptr;
    MutexLock lock(&mu_);
    --running_;
    if (running_ == 0) idle_.SignalAll();
  }
}

void CallThreads::WaitUntilIdle(absl::Duration timeout) {
  const SteadyTime deadline = SteadyIn(timeout);
  MutexLock lock(&mu_);
  while (running_ > 0) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return;
    idle_.WaitFor(&mu_, left);
  }
}

void CallThreads::Sweep() {
  std::vector<std::thread> ended;
  {
    MutexLock lock(&mu_);
    for (const std::thread::id id : ended_) {
      const auto it =
          std::find_if(threads_.begin(), threads_.end(),
                       [id](const std::thread& t) { return t.get_id() == id; });
      if (it == threads_.end()) continue;
      ended.push_back(std::move(*it));
      threads_.erase(it);
    }
    ended_.clear();
  }
  for (std::thread& thread : ended) thread.join();
}

}  // namespace kiln

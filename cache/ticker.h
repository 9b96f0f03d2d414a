#ifndef KILN_CACHE_TICKER_H_
#define KILN_CACHE_TICKER_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// A thread that does something now and then: at once, and then each `period` after
// it was done, until the ticker is destroyed. What takes long looks at `stop`.
class Ticker {
 public:
  using Work = std::function<void(const std::atomic<bool>& stop)>;

  Ticker(absl::Duration period, Work work)
      : period_(period), work_(std::move(work)), thread_([this] { Run(); }) {}
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  // Waits for the work under way.
  ~Ticker() {
    {
      MutexLock lock(&mu_);
      stop_ = true;
      stopped_.SignalAll();
    }
    thread_.join();
  }

 private:
  void Run() {
    while (!stop_) {
      work_(stop_);
      MutexLock lock(&mu_);
      if (!stop_) stopped_.WaitFor(&mu_, period_);
    }
  }

  const absl::Duration period_;
  const Work work_;
  std::atomic<bool> stop_{false};
  Mutex mu_;
  CondVar stopped_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace kiln

#endif  // KILN_CACHE_TICKER_H_

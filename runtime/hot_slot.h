#ifndef KILN_RUNTIME_HOT_SLOT_H_
#define KILN_RUNTIME_HOT_SLOT_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"
#include "runtime/executor.h"

namespace kiln {

// The executor that serves one model now. Publishing another never stops a run:
// a run keeps the executor it acquired.
//
// Thread-safe.
class HotSlot {
 public:
  // The executor to use for one run, or null before the first Publish.
  std::shared_ptr<const Executor> Acquire() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return current_;
  }

  // From the next Acquire on, `next` serves. `next` must be warm: nothing here
  // can fail. Returns the executor that served until now, or null. The caller
  // drops it when its last run is over: unloading waits for the device, and no
  // run should pay for that.
  [[nodiscard]] std::shared_ptr<const Executor> Publish(
      std::shared_ptr<const Executor> next) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    current_.swap(next);
    return next;
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const Executor> current_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_RUNTIME_HOT_SLOT_H_

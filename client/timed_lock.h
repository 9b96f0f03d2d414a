#ifndef KILN_CLIENT_TIMED_LOCK_H_
#define KILN_CLIENT_TIMED_LOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// What one thread at a time may do, and may take long over: the others wait,
// each until its own deadline. A Mutex cannot end a wait.
//
// Thread-safe; no order among those that wait.
class TimedLock {
 public:
  TimedLock() = default;
  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

  // Unlocks when it goes. Move-only; the TimedLock outlives it.
  class Taken {
   public:
    Taken(Taken&& other) noexcept : lock_(other.lock_) {
      other.lock_ = nullptr;
    }
    Taken& operator=(Taken&&) = delete;
    ~Taken() {
      if (lock_ != nullptr) lock_->End();
    }

   private:
    friend class TimedLock;
    explicit Taken(TimedLock* turn) : lock_(turn) {}
    TimedLock* lock_;
  };

  // DEADLINE_EXCEEDED when others had it until then; `what` is the subject.
  absl::StatusOr<Taken> Take(absl::Time deadline, absl::string_view what)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  CondVar ended_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kiln

#endif  // KILN_CLIENT_TIMED_LOCK_H_

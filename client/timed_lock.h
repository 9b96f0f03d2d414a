#ifndef KILN_CLIENT_TIMED_LOCK_H_
#define KILN_CLIENT_TIMED_LOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A mutex whose waiters have deadlines. Use it to serialize slow operations.
//
// Thread-safe. Waiters are served in no particular order.
class TimedLock {
 public:
  TimedLock() = default;
  TimedLock(const TimedLock&) = delete;
  TimedLock& operator=(const TimedLock&) = delete;

  // Unlocks when it is destroyed. Move-only; the TimedLock must outlive it.
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
    explicit Taken(TimedLock* lock) : lock_(lock) {}
    TimedLock* lock_;
  };

  // Waits for the lock until `deadline`; then DEADLINE_EXCEEDED. `what` is the subject
  // of the message.
  absl::StatusOr<Taken> Take(SteadyTime deadline, absl::string_view what)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  CondVar ended_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace kiln

#endif  // KILN_CLIENT_TIMED_LOCK_H_

#ifndef KILN_PROTO_BASE_CLOCK_H_
#define KILN_PROTO_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// What time it is. Whoever needs the time is given a Clock, so that a test can
// turn it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The machine's clock.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

// Stands still until it is turned.
class FakeClock final : public Clock {
 public:
  // Starts at a fixed moment: 2026-01-01T00:00:00Z.
  FakeClock() : now_(absl::FromUnixSeconds(1767225600)) {}

  absl::Time Now() const override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_CLOCK_H_

#ifndef KILN_PROTO_BASE_CLOCK_H_
#define KILN_PROTO_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// What time it is. Whoever needs the time is given a Clock, so that a test can
// turn it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // The wall's time: for what people read, and what is valid until a date.
  virtual absl::Time Now() const = 0;
  // As SteadyNow: what lasts is measured by it, since people and daemons set the
  // wall's clock, also back.
  virtual SteadyTime Steady() const = 0;
};

// The machine's clocks.
class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  SteadyTime Steady() const override { return SteadyNow(); }
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
  SteadyTime Steady() const override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return steady_;
  }
  // Time passes.
  void Advance(absl::Duration by) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    now_ += by;
    steady_ = After(steady_, by);
  }
  // Somebody sets the wall's clock; no time passes.
  void Jump(absl::Duration by) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_);
  SteadyTime steady_ ABSL_GUARDED_BY(mu_) = SteadyNow();
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_CLOCK_H_

#include "client/circuit_breaker.h"

namespace kiln {

bool CircuitBreaker::MayAsk(absl::Time now) {
  MutexLock lock(&mu_);
  if (pause_end_ == absl::InfinitePast()) return true;
  if (now < pause_end_) return false;
  pause_end_ = now + pause_;
  return true;
}

void CircuitBreaker::KeptSilent(absl::Time now) {
  MutexLock lock(&mu_);
  pause_end_ = now + pause_;
}

void CircuitBreaker::Answered() {
  MutexLock lock(&mu_);
  pause_end_ = absl::InfinitePast();
}

}  // namespace kiln

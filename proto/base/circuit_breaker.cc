#include "proto/base/circuit_breaker.h"

namespace kiln {

bool CircuitBreaker::MayAsk(SteadyTime now) {
  MutexLock lock(&mu_);
  if (pause_end_ == SteadyTime::min()) return true;
  if (now < pause_end_) return false;
  pause_end_ = After(now, pause_);
  return true;
}

void CircuitBreaker::KeptSilent(SteadyTime now) {
  MutexLock lock(&mu_);
  pause_end_ = After(now, pause_);
}

void CircuitBreaker::Answered() {
  MutexLock lock(&mu_);
  pause_end_ = SteadyTime::min();
}

}  // namespace kiln

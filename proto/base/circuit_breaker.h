#ifndef KILN_PROTO_BASE_CIRCUIT_BREAKER_H_
#define KILN_PROTO_BASE_CIRCUIT_BREAKER_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Decides whether a peer that did not answer is asked again: not until a pause is
// over, and then by one caller per pause, until it answers.
//
// Thread-safe. Reads no clock: callers pass `now`.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(absl::Duration pause) : pause_(pause) {}

  // Whether this caller may ask. The first caller after a pause may, which starts
  // the next pause for the others.
  bool MayAsk(SteadyTime now) ABSL_LOCKS_EXCLUDED(mu_);

  // The outcome of asking.
  void KeptSilent(SteadyTime now) ABSL_LOCKS_EXCLUDED(mu_);
  void Answered() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const absl::Duration pause_;
  Mutex mu_;
  // The end of the pause; min() while all callers may ask.
  SteadyTime pause_end_ ABSL_GUARDED_BY(mu_) = SteadyTime::min();
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_CIRCUIT_BREAKER_H_

#ifndef KILN_CLIENT_CIRCUIT_BREAKER_H_
#define KILN_CLIENT_CIRCUIT_BREAKER_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace kiln {

// Whether one who kept silent is asked again: after a pause, and then by one
// caller a pause, until there is an answer.
//
// Thread-safe. Looks at no clock: `now` is the caller's.
class CircuitBreaker {
 public:
  explicit CircuitBreaker(absl::Duration pause) : pause_(pause) {}

  // Whether this caller may ask. The first after a pause may, and with it the
  // next pause begins for the others.
  bool MayAsk(absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);

  // What became of asking.
  void KeptSilent(absl::Time now) ABSL_LOCKS_EXCLUDED(mu_);
  void Answered() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const absl::Duration pause_;
  Mutex mu_;
  // The end of the pause; the infinite past while everybody may ask.
  absl::Time pause_end_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
};

}  // namespace kiln

#endif  // KILN_CLIENT_CIRCUIT_BREAKER_H_

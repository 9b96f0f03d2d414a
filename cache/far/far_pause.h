#ifndef KILN_CACHE_FAR_FAR_PAUSE_H_
#define KILN_CACHE_FAR_FAR_PAUSE_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/circuit_breaker.h"
#include "proto/base/mutex.h"

namespace kiln {

// How long a silent server of a far store is left alone: what a caller whose server
// is gone may lose is one wait in so much.
inline constexpr absl::Duration kFarPause = absl::Seconds(1);

// With less time than this a server is not to blame for its silence.
inline constexpr absl::Duration kFairTime = absl::Milliseconds(20);

// Leaves a server that kept silent alone for kFarPause, as CircuitBreaker does.
// Thread-safe.
class FarBreaker {
 public:
  // OK when this caller may ask; else UNAVAILABLE STORAGE with what began the pause.
  absl::Status MayAsk() ABSL_LOCKS_EXCLUDED(mu_);

  // The outcome of asking. The message of `failure` names the server.
  void KeptSilent(const absl::Status& failure) ABSL_LOCKS_EXCLUDED(mu_);
  void Answered() { breaker_.Answered(); }

 private:
  CircuitBreaker breaker_{kFarPause};
  Mutex mu_;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // the last one
};

// Whether an error is one of FarBreaker::MayAsk: nothing was asked.
bool IsPause(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_CACHE_FAR_FAR_PAUSE_H_

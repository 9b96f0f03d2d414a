#include "client/timed_lock.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/steady_time.h"

namespace kiln {

absl::StatusOr<TimedLock::Taken> TimedLock::Take(SteadyTime deadline,
                                                 absl::string_view what) {
  MutexLock lock(&mu_);
  while (taken_) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          what, ": still waiting for other calls at the deadline"));
    }
    ended_.WaitFor(&mu_, left);
  }
  taken_ = true;
  return Taken(this);
}

void TimedLock::End() {
  MutexLock lock(&mu_);
  taken_ = false;
  ended_.Signal();
}

}  // namespace kiln

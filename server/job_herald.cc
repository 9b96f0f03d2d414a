#include "server/job_herald.h"

#include "proto/base/clock.h"

namespace kiln {
namespace {

// How often it looks while there are jobs, and how long an idle one sleeps before
// it looks whether it should end.
constexpr absl::Duration kLook = absl::Milliseconds(50);
constexpr absl::Duration kIdle = absl::Milliseconds(500);

}  // namespace

JobHerald::~JobHerald() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void JobHerald::Loop() {
  while (!EndsWithin(kLook)) {
    while (!table_.WaitForJobs(kIdle)) {
      if (EndsWithin(absl::ZeroDuration())) return;
    }
    table_.TellWaiters();
  }
}

bool JobHerald::EndsWithin(absl::Duration time) {
  const SteadyTime deadline = After(SteadyNow(), time);
  MutexLock lock(&mu_);
  while (!ending_) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mu_, left);
  }
  return true;
}

}  // namespace kiln

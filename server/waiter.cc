#include "server/waiter.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/detached_status.h"

namespace kiln {

Waiter::News Waiter::Next() {
  News news;
  MutexLock lock(&mu_);
  while (true) {
    if (cancelled_) {
      news.failure = absl::CancelledError("call: the caller has gone");
      return news;
    }
    if (progress_.has_value()) {
      news.progress = std::exchange(progress_, std::nullopt);
      return news;
    }
    if (outcome_.has_value()) {
      news.outcome = std::exchange(outcome_, std::nullopt);
      return news;
    }
    const absl::Duration left = deadline_ - absl::Now();
    if (left <= absl::ZeroDuration()) {
      news.failure = absl::DeadlineExceededError(
          "call: its deadline passed; the job goes on and is stored");
      return news;
    }
    posted_.WaitFor(&mu_, left);
  }
}

void Waiter::PostProgress(const JobProgress& progress) {
  MutexLock lock(&mu_);
  progress_ = progress;
  posted_.Signal();
}

void Waiter::PostOutcome(JobOutcome outcome) {
  outcome.status = Detached(outcome.status);
  MutexLock lock(&mu_);
  outcome_ = std::move(outcome);
  posted_.Signal();
}

void Waiter::Cancel() {
  MutexLock lock(&mu_);
  cancelled_ = true;
  posted_.Signal();
}

absl::Status Waiter::StillWaits() const {
  if (cancelled()) return absl::CancelledError("call: the caller has gone");
  if (deadline_ > absl::Now()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "call: its deadline passed before its job was begun");
}

bool Waiter::cancelled() const {
  MutexLock lock(&mu_);
  return cancelled_;
}

}  // namespace kiln

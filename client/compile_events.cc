#include "client/compile_events.h"

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "client/daemon_status.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// The events of one call, as gRPC's threads put them in and the caller's takes
// them out. Must be read until it has ended.
class Events final : public grpc::ClientReadReactor<wire::CompileEvent> {
 public:
  Events(wire::CompileService::Stub& stub, const wire::CompileRequest& request,
         SteadyTime deadline) {
    SetDeadline(context_, deadline);
    TakeRefusals(context_);
    stub.async()->Compile(&context_, &request, this);
    StartRead(&reading_);
    StartCall();
  }

  // The next event; empty: the call has ended, or nothing came in time, and then
  // the call is cancelled and has ended too.
  std::optional<wire::CompileEvent> Next(absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const SteadyTime until = After(SteadyNow(), timeout);
    {
      MutexLock lock(&mu_);
      while (events_.empty() && !status_.has_value() && !silent_) {
        const absl::Duration left = TimeLeft(until);
        silent_ = left <= absl::ZeroDuration();
        if (!silent_) changed_.WaitFor(&mu_, left);
      }
      if (!events_.empty()) {
        wire::CompileEvent event = std::move(events_.front());
        events_.pop_front();
        return event;
      }
      if (status_.has_value()) return std::nullopt;
    }
    context_.TryCancel();
    AwaitEnd();
    return std::nullopt;
  }

  bool silent() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return silent_;
  }
  absl::Status Outcome() ABSL_LOCKS_EXCLUDED(mu_) {
    AwaitEnd();
    MutexLock lock(&mu_);
    return StatusOfCall(*status_, context_, "compile");
  }

 private:
  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    if (!ok) return;
    {
      MutexLock lock(&mu_);
      events_.push_back(std::move(reading_));
      changed_.SignalAll();
    }
    reading_.Clear();
    StartRead(&reading_);
  }
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    status_ = status;
    changed_.SignalAll();
  }
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (!status_.has_value()) changed_.Wait(&mu_);
  }

  grpc::ClientContext context_;
  wire::CompileEvent reading_;  // gRPC's between StartRead and OnReadDone
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<wire::CompileEvent> events_ ABSL_GUARDED_BY(mu_);
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mu_);
  bool silent_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

absl::StatusOr<wire::CompileResult> CompileAndWait(
    wire::CompileService::Stub& stub, const wire::CompileRequest& request,
    const EventsWanted& wanted) {
  Events events(stub, request, wanted.deadline);
  std::optional<wire::CompileResult> result;
  while (std::optional<wire::CompileEvent> event =
             events.Next(wanted.longest_silence)) {
    if (event->has_result()) {
      result = std::move(*event->mutable_result());
    } else if (event->has_progress() && wanted.on_progress) {
      wanted.on_progress(event->progress());
    }
  }
  const absl::Status outcome = events.Outcome();
  if (events.silent()) {
    return MarkSilent(absl::UnavailableError(
        absl::StrCat("compile: the daemon has sent nothing for ",
                     absl::FormatDuration(wanted.longest_silence),
                     ", expected its progress every few seconds")));
  }
  if (!outcome.ok()) return outcome;
  if (result.has_value()) return *std::move(result);
  return absl::InternalError("compile: the daemon ended without a result");
}

}  // namespace kiln

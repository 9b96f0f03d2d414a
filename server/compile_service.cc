#include "server/compile_service.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "server/build_identity.h"
#include "server/waiter.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

wire::Progress::Stage ToWire(JobStage stage) {
  switch (stage) {
    case JobStage::kQueued:
      return wire::Progress::STAGE_QUEUED;
    case JobStage::kPlanning:
      return wire::Progress::STAGE_PLANNING;
    case JobStage::kBuilding:
      return wire::Progress::STAGE_BUILDING;
    case JobStage::kStoring:
      return wire::Progress::STAGE_STORING;
  }
  return wire::Progress::STAGE_UNSPECIFIED;
}

// A call with no more time than this left has none: gRPC's server rounds
// deadlines up to its clock's milliseconds, so one that had passed when it came
// in may seem to have this much.
constexpr absl::Duration kNoTime = absl::Milliseconds(3);

wire::CompileEvent EventOf(const JobProgress& progress) {
  wire::CompileEvent event;
  wire::Progress& wire = *event.mutable_progress();
  wire.set_stage(ToWire(progress.stage));
  wire.set_done(static_cast<uint32_t>(progress.done));
  wire.set_total(static_cast<uint32_t>(progress.total));
  wire.set_job(progress.job);
  return event;
}

// One Compile call: its stream and its waiter. gRPC's threads tell it of writes
// and of the caller's going; the story of the request runs on a call thread.
// Deletes itself when gRPC is done with it, which is after End.
class CompileCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public ProgressSink {
 public:
  CompileCall(grpc::CallbackServerContext* context,
              absl::Duration write_timeout, Counters& counters)
      : context_(context),
        write_timeout_(write_timeout),
        counters_(counters),
        waiter_(std::make_shared<Waiter>(DeadlineOf(*context))) {}

  void Send(const JobProgress& progress) override { Write(EventOf(progress)); }

  // Sends the result, if there is one, and ends the call. Nothing may touch
  // this afterwards.
  void End(absl::StatusOr<wire::CompileResult> result)
      ABSL_LOCKS_EXCLUDED(mu_) {
    if (result.ok()) {
      wire::CompileEvent event;
      *event.mutable_result() = *std::move(result);
      Write(event);
    }
    WaitForWrite();
    Finish(EndCall(*context_, result.status()));
  }

  const std::shared_ptr<Waiter>& waiter() const { return waiter_; }

 private:
  void Write(const wire::CompileEvent& event) ABSL_LOCKS_EXCLUDED(mu_) {
    grpc::ByteBuffer bytes = Encode(event);
    WaitForWrite();
    {
      MutexLock lock(&mu_);
      if (broken_) return;
      writing_ = true;
      bytes_.Swap(&bytes);
    }
    StartWrite(&bytes_);
  }

  // One write at a time is gRPC's rule. A caller that does not read is waited
  // for as long as a write may take; a call cancelled then ends its write.
  void WaitForWrite() ABSL_LOCKS_EXCLUDED(mu_) {
    if (WrittenWithin(write_timeout_)) return;
    counters_.Add(Count::kCallsUnread);
    LogWarning("call.unread",
               {{"waited", absl::FormatDuration(write_timeout_)}});
    context_->TryCancel();
    WrittenWithin(absl::InfiniteDuration());
  }

  bool WrittenWithin(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mu_);
    while (writing_) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return false;
      written_.WaitFor(&mu_, left);
    }
    return true;
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    writing_ = false;
    broken_ = broken_ || !ok;
    written_.SignalAll();
  }
  void OnCancel() override { waiter_->Cancel(); }
  void OnDone() override { delete this; }

  grpc::CallbackServerContext* const context_;  // outlives the call
  const absl::Duration write_timeout_;
  Counters& counters_;
  const std::shared_ptr<Waiter> waiter_;
  Mutex mu_;
  CondVar written_;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;  // the caller reads no more
  grpc::ByteBuffer bytes_;  // of the write under way; gRPC's while writing_
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* CompileService::Compile(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes) {
  counters_.Add(Count::kCallsCompile);
  auto* call = new CompileCall(context, facts_.write_timeout, counters_);
  if (call->waiter()->deadline() <= absl::Now() + kNoTime) {
    call->End(absl::DeadlineExceededError(
        "call: its deadline had passed when it came in"));
    return call;
  }
  auto request = std::make_shared<wire::CompileRequest>();
  absl::Status status =
      Decode(*bytes, facts_.max_message_bytes, "request", *request);
  if (status.ok()) {
    status = threads_.Run([this, call, request] {
      call->End(flow_.Run(*request, call->waiter(), *call));
    });
  }
  if (!status.ok()) {
    counters_.Add(Count::kCallsRefused);
    call->End(status);
  }
  return call;
}

grpc::ServerUnaryReactor* CompileService::Lookup(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* bytes,
    grpc::ByteBuffer* reply) {
  counters_.Add(Count::kCallsLookup);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  wire::LookupRequest request;
  absl::Status status =
      Decode(*bytes, facts_.max_message_bytes, "lookup", request);
  if (status.ok()) {
    const absl::StatusOr<wire::LookupReply> found = flow_.Lookup(request);
    status = found.status();
    if (found.ok()) *reply = Encode(*found);
  }
  if (!status.ok()) counters_.Add(Count::kCallsRefused);
  reactor->Finish(EndCall(*context, status));
  return reactor;
}

grpc::ServerUnaryReactor* CompileService::Describe(
    grpc::CallbackServerContext* context, const wire::DescribeRequest*,
    wire::DescribeReply* reply) {
  *reply = DescriptionOf(pool_.identity(), facts_.version, facts_.public_key,
                         facts_.max_message_bytes);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kiln

#include "server/compile_stream.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "server/detached_status.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

// A namespace has many callers: alone it gets three quarters of the places.
constexpr int64_t kNamespaceRatio = 3;

}  // namespace

CompileStreams::CompileStreams(const FairShare::Amount& limit,
                               UnreadCalls& unread)
    : callers_("compile calls that wait, of caller", limit),
      namespaces_("compile calls that wait, of namespace",
                  {.places = limit.places}, kNamespaceRatio),
      unread_(unread) {}

void CompileStreams::WaitUntilNone(absl::Duration timeout) {
  const SteadyTime deadline = After(SteadyNow(), timeout);
  MutexLock lock(&mu_);
  while (!calls_.empty()) {
    const absl::Duration left = TimeLeft(deadline);
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(&mu_, left);
  }
}

void CompileStreams::Add(CompileStream* call) {
  MutexLock lock(&mu_);
  calls_.insert(call);
}

void CompileStreams::Remove(CompileStream* call) {
  MutexLock lock(&mu_);
  calls_.erase(call);
  if (calls_.empty()) changed_.SignalAll();
}

std::shared_ptr<CompileStream> CompileStream::Make(
    grpc::CallbackServerContext& context, CompileFlow& flow,
    CompileStreams& calls) {
  std::shared_ptr<CompileStream> call(new CompileStream(context, flow, calls));
  call->self_ = call;
  calls.Add(call.get());
  return call;
}

absl::Status CompileStream::TakePlace(absl::string_view caller) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(of_caller_, calls_.callers_.Take(caller));
  return absl::OkStatus();
}

absl::Status CompileStream::EnterNamespace(absl::string_view cache_namespace) {
  MutexLock lock(&mu_);
  if (cancelled_) return absl::CancelledError("call: the caller has gone");
  ASSIGN_OR_RETURN(of_namespace_, calls_.namespaces_.Take(cache_namespace));
  return absl::OkStatus();
}

absl::Status CompileStream::TakeBytes(int64_t bytes) {
  MutexLock lock(&mu_);
  if (cancelled_) return absl::CancelledError("call: the caller has gone");
  return of_caller_.Grow(bytes);
}

absl::Status CompileStream::StillWaits() const {
  MutexLock lock(&mu_);
  if (!cancelled_) return absl::OkStatus();
  return absl::CancelledError("call: the caller has gone");
}

void CompileStream::OnProgress(const SharedBytes& event) {
  {
    MutexLock lock(&mu_);
    if (answer_.has_value() || cancelled_) return;
    if (writing_) {
      progress_ = event;
      return;
    }
    writing_ = true;
    calls_.unread_.Begin(write_);
    bytes_ = BufferOf(SharedAnswer(event));
  }
  StartWrite(&bytes_);
}

void CompileStream::Answer(const absl::StatusOr<SharedAnswer>& event) {
  {
    MutexLock lock(&mu_);
    if (answer_.has_value()) return;
    if (event.ok()) {
      answer_.emplace(*event);
    } else {
      answer_.emplace(Detached(event.status()));
    }
    // OnWriteDone sends it.
    if (writing_) return;
    writing_ = true;
    calls_.unread_.Begin(write_);
  }
  SendAnswer();
}

// writing_ is set: nobody else writes.
void CompileStream::SendAnswer() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = answer_->status();
    if (status.ok()) bytes_ = BufferOf(*std::move(*answer_));
  }
  if (status.ok()) {
    StartWriteAndFinish(&bytes_, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    Finish(EndCall(context_, status));
  }
}

void CompileStream::OnWriteDone(bool ok) {
  calls_.unread_.End(write_);
  bool answered = false;
  {
    MutexLock lock(&mu_);
    cancelled_ = cancelled_ || !ok;
    answered = answer_.has_value();
    if (answered) {
      calls_.unread_.Begin(write_);
    } else {
      if (progress_ == nullptr || cancelled_) {
        writing_ = false;
        return;
      }
      calls_.unread_.Begin(write_);
      bytes_ = BufferOf(SharedAnswer(std::exchange(progress_, nullptr)));
    }
  }
  if (answered) {
    SendAnswer();
  } else {
    StartWrite(&bytes_);
  }
}

void CompileStream::OnCancel() {
  calls_.unread_.HearReset(write_);
  {
    MutexLock lock(&mu_);
    cancelled_ = true;
  }
  flow_.Leave(*this);
}

void CompileStream::OnDone() {
  calls_.unread_.Leave(write_);
  {
    // Whoever still holds this holds no place.
    MutexLock lock(&mu_);
    cancelled_ = true;
    of_caller_.Release();
    of_namespace_.Release();
  }
  calls_.Remove(this);
  self_.reset();  // and with it, most often, this
}

}  // namespace kiln

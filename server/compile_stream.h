#ifndef KILN_SERVER_COMPILE_STREAM_H_
#define KILN_SERVER_COMPILE_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"
#include "server/compile_flow.h"
#include "server/fair_share.h"
#include "server/unread_calls.h"

namespace kiln {

class CompileStream;

// The Compile calls that are there. Thread-safe.
class CompileStreams {
 public:
  // At most so many calls with a place, and of those a caller's and a namespace's
  // share; of the bytes of hits, which nobody else waits for, a caller's. `unread`
  // outlives this.
  CompileStreams(const FairShare::Amount& limit, UnreadCalls& unread);

  CompileStreams(const CompileStreams&) = delete;
  CompileStreams& operator=(const CompileStreams&) = delete;

  // Returns when no call is there, or after `timeout`.
  void WaitUntilNone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class CompileStream;
  void Add(CompileStream* call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(CompileStream* call) ABSL_LOCKS_EXCLUDED(mu_);

  FairShare callers_;
  FairShare namespaces_;
  UnreadCalls& unread_;
  mutable Mutex mu_;
  CondVar changed_;
  std::set<CompileStream*> calls_ ABSL_GUARDED_BY(mu_);
};

// One Compile call: its stream, and what waits for the job. It has no thread:
// gRPC's threads tell it of writes and of the caller's going, the flow's of
// progress and of the answer. What many callers get they share.
class CompileStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                            public FlowCall {
 public:
  // Lives until gRPC is done with it, which is after Answer. All outlive it.
  static std::shared_ptr<CompileStream> Make(
      grpc::CallbackServerContext& context, CompileFlow& flow,
      CompileStreams& calls);

  // A place for as long as the call lasts. RESOURCE_EXHAUSTED QUEUE_FULL beyond
  // the caller's share.
  absl::Status TakePlace(absl::string_view caller) ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status EnterNamespace(absl::string_view cache_namespace) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TakeBytes(int64_t bytes) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status StillWaits() const override ABSL_LOCKS_EXCLUDED(mu_);
  void OnProgress(const SharedBytes& event) override ABSL_LOCKS_EXCLUDED(mu_);
  void Answer(const absl::StatusOr<SharedAnswer>& event) override
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class CompileStreams;
  CompileStream(grpc::CallbackServerContext& context, CompileFlow& flow,
                CompileStreams& calls)
      : context_(context), flow_(flow), calls_(calls), write_(context) {}

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

  // Ends the call with the answer; nothing is written.
  void SendAnswer() ABSL_LOCKS_EXCLUDED(mu_);

  grpc::CallbackServerContext& context_;
  CompileFlow& flow_;
  CompileStreams& calls_;
  UnreadCalls::Write write_;
  std::shared_ptr<CompileStream> self_;  // until gRPC is done

  mutable Mutex mu_;
  FairShare::Part of_caller_ ABSL_GUARDED_BY(mu_);
  FairShare::Part of_namespace_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  SharedBytes progress_ ABSL_GUARDED_BY(mu_);  // to be written next
  std::optional<absl::StatusOr<SharedAnswer>> answer_ ABSL_GUARDED_BY(mu_);
  grpc::ByteBuffer bytes_;  // of the write under way; gRPC's while writing_
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_STREAM_H_

#ifndef KILN_SERVER_COMPILE_STREAM_H_
#define KILN_SERVER_COMPILE_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/mutex.h"
#include "server/compile_flow.h"
#include "server/counters.h"
#include "server/fair_share.h"

namespace kiln {

class CompileStream;

// The Compile calls that are there. On a thread of its own it cancels those whose
// callers do not read what they are sent. Thread-safe.
class CompileStreams {
 public:
  // At most `limit` calls with a place, and of those a caller's and a namespace's
  // share. One that takes nothing for `write_timeout` is cancelled. `counters`
  // outlives this.
  CompileStreams(int64_t limit, absl::Duration write_timeout,
                 Counters& counters);

  CompileStreams(const CompileStreams&) = delete;
  CompileStreams& operator=(const CompileStreams&) = delete;
  // No call is there any more: gRPC has ended them.
  ~CompileStreams();

  // Returns when no call is there, or after `timeout`.
  void WaitUntilNone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class CompileStream;
  void Add(CompileStream* call) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(CompileStream* call) ABSL_LOCKS_EXCLUDED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  FairShare callers_;
  FairShare namespaces_;
  const absl::Duration write_timeout_;
  Counters& counters_;
  mutable Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::set<CompileStream*> calls_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;  // last: it reads the members above
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
  absl::Status StillWaits() const override ABSL_LOCKS_EXCLUDED(mu_);
  void OnProgress(const SharedBytes& event) override ABSL_LOCKS_EXCLUDED(mu_);
  void Answer(const absl::StatusOr<SharedAnswer>& event) override
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  friend class CompileStreams;
  CompileStream(grpc::CallbackServerContext& context, CompileFlow& flow,
                CompileStreams& calls)
      : context_(context), flow_(flow), calls_(calls) {}

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

  // True once, when a write has been under way for so long.
  bool IsUnread(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the call with the answer; nothing is written.
  void SendAnswer() ABSL_LOCKS_EXCLUDED(mu_);

  grpc::CallbackServerContext& context_;
  CompileFlow& flow_;
  CompileStreams& calls_;
  std::shared_ptr<CompileStream> self_;  // until gRPC is done

  mutable Mutex mu_;
  FairShare::Part of_caller_ ABSL_GUARDED_BY(mu_);
  FairShare::Part of_namespace_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool unread_ ABSL_GUARDED_BY(mu_) = false;  // was told so
  SteadyTime write_begun_ ABSL_GUARDED_BY(mu_);
  SharedBytes progress_ ABSL_GUARDED_BY(mu_);  // to be written next
  std::optional<absl::StatusOr<SharedAnswer>> answer_ ABSL_GUARDED_BY(mu_);
  grpc::ByteBuffer bytes_;  // of the write under way; gRPC's while writing_
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_STREAM_H_

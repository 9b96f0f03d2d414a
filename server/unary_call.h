#ifndef KILN_SERVER_UNARY_CALL_H_
#define KILN_SERVER_UNARY_CALL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "server/fair_share.h"
#include "server/unread_calls.h"

namespace kiln {

// A call with one answer. It holds its place and the bytes of its answer until gRPC
// is done with it: until the caller has taken the answer, or has gone, or was
// cancelled since it took nothing. Deletes itself then.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // All outlive it.
  UnaryCall(grpc::CallbackServerContext& context, FairShare& shares,
            UnreadCalls& unread)
      : context_(context), shares_(shares), unread_(unread), write_(context) {}

  // Of the caller's share. RESOURCE_EXHAUSTED QUEUE_FULL beyond it.
  absl::Status TakePlace(absl::string_view caller);
  // The answer's, after a place. Errors as TakePlace's.
  absl::Status TakeBytes(int64_t bytes) { return part_.Grow(bytes); }

  // The reply is filled, or the call ends with an error. Once.
  void Answer(const absl::Status& status);

 private:
  void OnCancel() override { unread_.HearReset(write_); }
  void OnDone() override;

  grpc::CallbackServerContext& context_;
  FairShare& shares_;
  UnreadCalls& unread_;
  UnreadCalls::Write write_;
  FairShare::Part part_;
};

}  // namespace kiln

#endif  // KILN_SERVER_UNARY_CALL_H_

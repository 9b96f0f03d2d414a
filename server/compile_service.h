#ifndef KILN_SERVER_COMPILE_SERVICE_H_
#define KILN_SERVER_COMPILE_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/ready_entry.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/key_ring.h"
#include "proto/compile_service.grpc.pb.h"
#include "server/access/gatekeeper.h"
#include "server/call_executor.h"
#include "server/compile_flow.h"
#include "server/compile_stream.h"
#include "server/counters.h"
#include "server/fair_share.h"
#include "server/known_lookups.h"
#include "server/unary_call.h"
#include "server/unread_calls.h"
#include "server/worker_pool.h"

namespace kiln {

// proto/compile_service.proto over gRPC: decode, one flow, encode. All
// methods take raw bytes: nothing of a stranger is decoded, and bytes that are no
// message get a typed error like any other mistake. Thread-safe.
class CompileService final
    : public wire::CompileService::WithRawCallbackMethod_Compile<
          wire::CompileService::WithRawCallbackMethod_Lookup<
              wire::CompileService::WithRawCallbackMethod_Describe<
                  wire::CompileService::Service>>> {
 public:
  // What does not change while the daemon runs.
  struct Facts {
    std::string version;
    int64_t max_message_bytes = 0;
  };

  // All outlive this. `lookups` are the places of Lookup and Describe and the bytes
  // of their answers, by caller. `pool` says what can be built, `keys` who signs.
  CompileService(const Gatekeeper& gate, CompileFlow& flow,
                 CallExecutor& executor, CompileStreams& calls,
                 FairShare& lookups, UnreadCalls& unread, Counters& counters,
                 const WorkerPool& pool, const KeyRing& keys, Facts facts)
      : gate_(gate),
        flow_(flow),
        executor_(executor),
        calls_(calls),
        lookups_(lookups),
        unread_(unread),
        counters_(counters),
        pool_(pool),
        keys_(keys),
        facts_(std::move(facts)) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Compile(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) override;

 private:
  // Puts a caller who may call on the executor.
  absl::Status Admit(grpc::CallbackServerContext& context,
                     const grpc::ByteBuffer* bytes,
                     const std::shared_ptr<CompileStream>& call);
  // Who may call, and the call has a place.
  absl::StatusOr<Caller> AdmitUnary(grpc::CallbackServerContext& context,
                                    UnaryCall& call);
  // A hit that is in memory, or nothing, as `missed` says; errors as LookUp's, told
  // once.
  absl::StatusOr<std::optional<ReadyHit>> LookUpInMemory(
      const Caller& caller, const grpc::ByteBuffer& bytes, MemoryMiss& missed);
  void LookUp(const Caller& caller, const grpc::ByteBuffer& bytes,
              const MemoryMiss& missed, const CompileFlow::LookupDone& done);

  const Gatekeeper& gate_;
  CompileFlow& flow_;
  CallExecutor& executor_;
  CompileStreams& calls_;
  FairShare& lookups_;
  UnreadCalls& unread_;
  Counters& counters_;
  const WorkerPool& pool_;
  const KeyRing& keys_;
  const Facts facts_;
  KnownLookups known_;
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_SERVICE_H_

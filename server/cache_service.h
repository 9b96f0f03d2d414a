#ifndef KILN_SERVER_CACHE_SERVICE_H_
#define KILN_SERVER_CACHE_SERVICE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/near_records.h"
#include "grpcpp/grpcpp.h"
#include "proto/cache_service.grpc.pb.h"
#include "server/access/gatekeeper.h"
#include "server/call_executor.h"
#include "server/counters.h"
#include "server/fair_share.h"
#include "server/unread_calls.h"

namespace kiln {

// proto/cache_service.proto over gRPC: what other daemons read from this one's cache
// and write into it. On threads of its own, so that other daemons' calls take no
// thread from callers who wait for a compile or a lookup. Thread-safe.
class CacheService final
    : public wire::CacheService::WithRawCallbackMethod_Hints<
          wire::CacheService::WithRawCallbackMethod_Get<
              wire::CacheService::WithRawCallbackMethod_Put<
                  wire::CacheService::WithRawCallbackMethod_Erase<
                      wire::CacheService::Service>>>> {
 public:
  // All outlive this. Larger records than `max_record_bytes` are refused.
  CacheService(const Gatekeeper& gate, NearRecords& records,
               UnreadCalls& unread, Counters& counters,
               int64_t max_record_bytes);

  grpc::ServerUnaryReactor* Hints(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Erase(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* reply) override;

 private:
  // What a call does, and what its caller must be somewhere for it.
  struct Act {
    absl::string_view name;  // "get_record"
    Role role;
  };

  // Runs `work`, which gives a StatusOr<Reply> for a Caller and a Request, on a
  // thread, and ends the call with what it gives.
  template <typename Request, typename Work>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* bytes,
                                  grpc::ByteBuffer* reply, const Act& act,
                                  Work work);

  absl::StatusOr<wire::HintsReply> FindHints(const Caller& caller,
                                             const wire::HintsRequest& request);
  absl::StatusOr<wire::GetRecordReply> GetRecord(
      const Caller& caller, const wire::GetRecordRequest& request);
  absl::StatusOr<wire::PutRecordReply> PutRecord(
      const Caller& caller, wire::PutRecordRequest& request);
  absl::StatusOr<wire::EraseRecordReply> EraseRecord(
      const Caller& caller, const wire::EraseRecordRequest& request);

  const Gatekeeper& gate_;
  NearRecords& records_;
  UnreadCalls& unread_;
  Counters& counters_;
  const int64_t max_record_bytes_;
  FairShare shares_;       // of calls under way and their bytes
  CallExecutor executor_;  // last: its work uses the rest
};

}  // namespace kiln

#endif  // KILN_SERVER_CACHE_SERVICE_H_

#ifndef KILN_SERVER_COMPILE_SERVICE_H_
#define KILN_SERVER_COMPILE_SERVICE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "proto/compile_service.grpc.pb.h"
#include "server/call_threads.h"
#include "server/compile_flow.h"
#include "server/counters.h"
#include "server/worker_pool.h"

namespace kiln {

// proto/compile_service.proto over gRPC: decode, one flow, encode. Compile and
// Lookup take raw bytes, so that bytes that are no message get a typed error
// like any other mistake. Thread-safe.
class CompileService final
    : public wire::CompileService::WithRawCallbackMethod_Compile<
          wire::CompileService::WithRawCallbackMethod_Lookup<
              wire::CompileService::WithCallbackMethod_Describe<
                  wire::CompileService::Service>>> {
 public:
  // What does not change while the daemon runs.
  struct Facts {
    std::string version;
    std::string public_key;
    int64_t max_message_bytes = 0;
    absl::Duration write_timeout;  // Config::write_timeout
  };

  // All outlive this. `pool` says what can be built.
  CompileService(CompileFlow& flow, CallThreads& threads, Counters& counters,
                 const WorkerPool& pool, Facts facts)
      : flow_(flow),
        threads_(threads),
        counters_(counters),
        pool_(pool),
        facts_(std::move(facts)) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Compile(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* reply) override;

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const wire::DescribeRequest* request,
                                     wire::DescribeReply* reply) override;

 private:
  CompileFlow& flow_;
  CallThreads& threads_;
  Counters& counters_;
  const WorkerPool& pool_;
  const Facts facts_;
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_SERVICE_H_

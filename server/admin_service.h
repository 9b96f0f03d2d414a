#ifndef KILN_SERVER_ADMIN_SERVICE_H_
#define KILN_SERVER_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cache/cache_stack.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/base/steady_time.h"
#include "server/access/caller.h"
#include "server/access/gatekeeper.h"
#include "server/access/token_store.h"
#include "server/call_threads.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/job_table.h"
#include "server/key_store.h"
#include "server/maintenance.h"
#include "server/pass_times.h"
#include "server/quarantine.h"
#include "server/worker_pool.h"

namespace kiln {

// Admin calls at once; more are refused with QUEUE_FULL.
inline constexpr int64_t kMostAdminCalls = 16;

// proto/admin_service.proto over gRPC: for callers with the role admin. What scans
// the database or asks a worker runs on a thread of the service's own, so that it
// answers while all compile calls there may be wait. Thread-safe.
class AdminService final : public wire::AdminService::CallbackService {
 public:
  // All outlive the service.
  struct Rooms {
    const Gatekeeper& gate;
    TokenStore& tokens;
    KeyStore& keys;
    CacheStack& cache;
    JobTable& jobs;
    Quarantine& quarantine;
    WorkerPool& pool;
    Counters& counters;
    PassTimes& pass_times;
  };

  struct Facts {
    std::string version;
    std::string data_folder;
  };

  // `start_drain` returns at once; a function, since who ends the daemon is
  // above this room.
  AdminService(const Rooms& rooms, Facts facts,
               std::function<void()> start_drain)
      : rooms_(rooms),
        facts_(std::move(facts)),
        start_drain_(std::move(start_drain)),
        begun_(SteadyNow()),
        maintenance_(rooms.cache) {}

  grpc::ServerUnaryReactor* Stats(grpc::CallbackServerContext* context,
                                  const wire::StatsRequest* request,
                                  wire::StatsReply* reply) override;
  grpc::ServerUnaryReactor* Jobs(grpc::CallbackServerContext* context,
                                 const wire::JobsRequest* request,
                                 wire::JobsReply* reply) override;
  grpc::ServerUnaryReactor* Workers(grpc::CallbackServerContext* context,
                                    const wire::WorkersRequest* request,
                                    wire::WorkersReply* reply) override;
  grpc::ServerUnaryReactor* ListQuarantine(
      grpc::CallbackServerContext* context,
      const wire::QuarantineRequest* request,
      wire::QuarantineReply* reply) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const wire::ListRequest* request,
                                 wire::ListReply* reply) override;
  grpc::ServerUnaryReactor* Show(grpc::CallbackServerContext* context,
                                 const wire::ShowRequest* request,
                                 wire::ShowReply* reply) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const wire::ExplainRequest* request,
                                    wire::ExplainReply* reply) override;
  grpc::ServerUnaryReactor* Purge(grpc::CallbackServerContext* context,
                                  const wire::PurgeRequest* request,
                                  wire::PurgeReply* reply) override;
  grpc::ServerUnaryReactor* Pin(grpc::CallbackServerContext* context,
                                const wire::PinRequest* request,
                                wire::PinReply* reply) override;
  grpc::ServerUnaryReactor* Maintain(grpc::CallbackServerContext* context,
                                     const wire::MaintainRequest* request,
                                     wire::MaintainReply* reply) override;
  grpc::ServerUnaryReactor* Tune(grpc::CallbackServerContext* context,
                                 const wire::TuneRequest* request,
                                 wire::TuneReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const wire::DrainRequest* request,
                                  wire::DrainReply* reply) override;
  grpc::ServerUnaryReactor* AddToken(grpc::CallbackServerContext* context,
                                     const wire::AddTokenRequest* request,
                                     wire::AddTokenReply* reply) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const wire::RevokeTokenRequest* request,
                                        wire::RevokeTokenReply* reply) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const wire::ListTokensRequest* request,
                                       wire::ListTokensReply* reply) override;
  grpc::ServerUnaryReactor* ListKeys(grpc::CallbackServerContext* context,
                                     const wire::ListKeysRequest* request,
                                     wire::ListKeysReply* reply) override;
  grpc::ServerUnaryReactor* RotateKey(grpc::CallbackServerContext* context,
                                      const wire::RotateKeyRequest* request,
                                      wire::RotateKeyReply* reply) override;
  grpc::ServerUnaryReactor* RevokeKey(grpc::CallbackServerContext* context,
                                      const wire::RevokeKeyRequest* request,
                                      wire::RevokeKeyReply* reply) override;

 private:
  // What a call does, and what its caller must be for it.
  struct Act {
    absl::string_view name;  // "purge"
    Role role = Role::kAdmin;
    std::string cache_namespace = std::string(kEveryNamespace);
    // Recorded, with what it is done to, however it ends.
    bool changes = false;
    std::string subject = "";
  };

  // Runs `work`, which gives a StatusOr<Reply> for a Caller who may, on a thread,
  // and ends the call with what it gives. gRPC keeps request and reply until then.
  template <typename Reply, typename Work>
  grpc::ServerUnaryReactor* Serve(grpc::CallbackServerContext* context,
                                  Reply* reply, Act act, Work work);
  void FillStats(wire::StatsReply& reply);
  void FillJobs(wire::JobsReply& reply);
  void FillWorkers(wire::WorkersReply& reply);

  const Rooms rooms_;
  const Facts facts_;
  const std::function<void()> start_drain_;
  const SteadyTime begun_;
  Maintenance maintenance_;
  CallThreads threads_{kMostAdminCalls};  // last: its calls use the rest
};

}  // namespace kiln

#endif  // KILN_SERVER_ADMIN_SERVICE_H_

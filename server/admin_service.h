#ifndef KILN_SERVER_ADMIN_SERVICE_H_
#define KILN_SERVER_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cache/cache_stack.h"
#include "grpcpp/grpcpp.h"
#include "proto/admin_service.grpc.pb.h"
#include "server/call_threads.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/job_table.h"
#include "server/pass_times.h"
#include "server/worker_pool.h"

namespace kiln {

// proto/admin_service.proto over gRPC: for the owner of the daemon. What scans
// the database or asks a worker runs on a call thread. Thread-safe.
class AdminService final : public wire::AdminService::CallbackService {
 public:
  // All outlive the service.
  struct Rooms {
    CacheStack& cache;
    JobTable& jobs;
    WorkerPool& pool;
    CallThreads& threads;
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
        begun_(absl::Now()) {}

  grpc::ServerUnaryReactor* Stats(grpc::CallbackServerContext* context,
                                  const wire::StatsRequest* request,
                                  wire::StatsReply* reply) override;
  grpc::ServerUnaryReactor* Jobs(grpc::CallbackServerContext* context,
                                 const wire::JobsRequest* request,
                                 wire::JobsReply* reply) override;
  grpc::ServerUnaryReactor* Workers(grpc::CallbackServerContext* context,
                                    const wire::WorkersRequest* request,
                                    wire::WorkersReply* reply) override;
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
  grpc::ServerUnaryReactor* Tune(grpc::CallbackServerContext* context,
                                 const wire::TuneRequest* request,
                                 wire::TuneReply* reply) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const wire::DrainRequest* request,
                                  wire::DrainReply* reply) override;

 private:
  const Rooms rooms_;
  const Facts facts_;
  const std::function<void()> start_drain_;
  const absl::Time begun_;
};

}  // namespace kiln

#endif  // KILN_SERVER_ADMIN_SERVICE_H_

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
#include "server/fair_share.h"
#include "server/job_table.h"
#include "server/key_store.h"
#include "server/maintenance.h"
#include "server/pass_times.h"
#include "server/quarantine.h"
#include "server/tune_flow.h"
#include "server/unread_calls.h"
#include "server/worker_pool.h"

namespace kiln {

// Admin calls at once, of which a caller has its share; more are refused with
// QUEUE_FULL.
inline constexpr int64_t kMostAdminCalls = 16;
// Answers at once that callers have not taken, of which a caller has its share too.
inline constexpr int64_t kMostAdminAnswers = 1024;
// Of them those that measure kernels, which takes minutes. They have threads of
// their own.
inline constexpr int64_t kMostTunings = 2;
// What a call may send that brings no graph along.
inline constexpr int64_t kMaxAdminRequest = int64_t{1} << 20;

// proto/admin_service.proto over gRPC: for callers with the role admin. What scans
// the database or asks a worker runs on a thread of the service's own, so that it
// answers while all compile calls there may be wait. All methods take raw bytes, so
// that nothing of a stranger is decoded. Thread-safe.
class AdminService final
    : public wire::AdminService::WithRawCallbackMethod_Stats<
          wire::AdminService::WithRawCallbackMethod_Jobs<
              wire::AdminService::WithRawCallbackMethod_Workers<
                  wire::AdminService::WithRawCallbackMethod_ListQuarantine<
                      wire::AdminService::WithRawCallbackMethod_List<
                          wire::AdminService::WithRawCallbackMethod_Show<
                              wire::AdminService::WithRawCallbackMethod_Explain<
                                  wire::AdminService::WithRawCallbackMethod_Purge<wire::AdminService::WithRawCallbackMethod_Pin<
                                      wire::AdminService::
                                          WithRawCallbackMethod_Maintain<wire::AdminService::WithRawCallbackMethod_Tune<
                                              wire::AdminService::
                                                  WithRawCallbackMethod_Drain<wire::AdminService::WithRawCallbackMethod_AddToken<
                                                      wire::AdminService::
                                                          WithRawCallbackMethod_RevokeToken<wire::AdminService::WithRawCallbackMethod_ListTokens<
                                                              wire::AdminService::
                                                                  WithRawCallbackMethod_ListKeys<wire::AdminService::WithRawCallbackMethod_RotateKey<
                                                                      wire::AdminService::
                                                                          WithRawCallbackMethod_RevokeKey<
                                                                              wire::AdminService::
                                                                                  Service>>>>>>>>>>>>>>>>>> {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

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
    UnreadCalls& unread;
  };

  struct Facts {
    std::string version;
    std::string data_folder;
    int64_t max_message_bytes = 0;  // of a call that brings a graph along
    int64_t max_answer_bytes = 0;   // of all that were not taken yet
  };

  // `start_drain` returns at once; a function, since who ends the daemon is
  // above this room.
  AdminService(const Rooms& rooms, Facts facts,
               std::function<void()> start_drain)
      : rooms_(rooms),
        facts_(std::move(facts)),
        start_drain_(std::move(start_drain)),
        begun_(SteadyNow()),
        maintenance_(rooms.cache),
        tuner_(rooms.pool, rooms.cache.tuning(), rooms.counters) {}

  Reactor* Stats(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Jobs(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Workers(Context* context, const Bytes* request,
                   Bytes* reply) override;
  Reactor* ListQuarantine(Context* context, const Bytes* request,
                          Bytes* reply) override;
  Reactor* List(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Show(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Explain(Context* context, const Bytes* request,
                   Bytes* reply) override;
  Reactor* Purge(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Pin(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Maintain(Context* context, const Bytes* request,
                    Bytes* reply) override;
  Reactor* Tune(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* Drain(Context* context, const Bytes* request, Bytes* reply) override;
  Reactor* AddToken(Context* context, const Bytes* request,
                    Bytes* reply) override;
  Reactor* RevokeToken(Context* context, const Bytes* request,
                       Bytes* reply) override;
  Reactor* ListTokens(Context* context, const Bytes* request,
                      Bytes* reply) override;
  Reactor* ListKeys(Context* context, const Bytes* request,
                    Bytes* reply) override;
  Reactor* RotateKey(Context* context, const Bytes* request,
                     Bytes* reply) override;
  Reactor* RevokeKey(Context* context, const Bytes* request,
                     Bytes* reply) override;

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

  // A call as gRPC gives it, and what it may take.
  struct Call {
    Context* context;
    const Bytes* request;
    Bytes* reply;
    int64_t max_bytes = kMaxAdminRequest;
    CallThreads* threads = nullptr;  // null: those of all admin calls
  };
  // Who waits for the answer.
  struct Asker {
    const Caller& caller;
    const Context& context;
    // Nobody does any more.
    bool IsGone() const { return context.IsCancelled(); }
  };

  // Of a caller whom the door admits: decodes a Request on a thread, asks `plan` what
  // it is to do, sees that the caller may, does `work`, which gives a
  // StatusOr<Reply>, and ends the call with that.
  template <typename Request, typename Plan, typename Work>
  Reactor* Serve(Call call, Plan plan, Work work);
  template <typename Request, typename Plan, typename Work>
  absl::Status Answer(const Call& call, const Caller& caller, const Plan& plan,
                      const Work& work);
  void FillStats(wire::StatsReply& reply);
  void FillJobs(const wire::JobsRequest& request, wire::JobsReply& reply);
  void FillWorkers(wire::WorkersReply& reply);

  const Rooms rooms_;
  const Facts facts_;
  const std::function<void()> start_drain_;
  const SteadyTime begun_;
  Maintenance maintenance_;
  Tuner tuner_;
  FairShare shares_{"admin calls of caller", {.places = kMostAdminCalls}};
  // What was answered and not taken yet.
  FairShare answers_{
      "admin answers of caller",
      {.places = kMostAdminAnswers, .bytes = facts_.max_answer_bytes}};
  // Last: their calls use the rest.
  CallThreads tune_threads_{kMostTunings};
  CallThreads threads_{kMostAdminCalls};
};

}  // namespace kiln

#endif  // KILN_SERVER_ADMIN_SERVICE_H_

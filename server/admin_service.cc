#include "server/admin_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "server/cache_admin.h"
#include "server/tune_flow.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

ServerUnaryReactor* AtOnce(CallbackServerContext* context) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// Runs `work`, which gives a StatusOr<Reply>, on a call thread and ends the
// call with what it gives. gRPC keeps request and reply until then.
template <typename Reply, typename Work>
ServerUnaryReactor* OnThread(CallThreads& threads,
                             CallbackServerContext* context, Reply* reply,
                             Work work) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status begun = threads.Run([context, reactor, reply, work] {
    absl::StatusOr<Reply> made = work();
    if (made.ok()) *reply = *std::move(made);
    reactor->Finish(EndCall(*context, made.status()));
  });
  if (!begun.ok()) reactor->Finish(EndCall(*context, begun));
  return reactor;
}

std::string StageText(const JobView& job) {
  if (!job.running) return "-";
  switch (job.progress.stage) {
    case JobStage::kQueued:
      return "-";
    case JobStage::kPlanning:
      return "planning";
    case JobStage::kBuilding:
      return absl::StrCat("building ", job.progress.done, "/",
                          job.progress.total);
    case JobStage::kStoring:
      return "storing";
  }
  return "-";
}

}  // namespace

ServerUnaryReactor* AdminService::Stats(CallbackServerContext* context,
                                        const wire::StatsRequest*,
                                        wire::StatsReply* reply) {
  auto counters = rooms_.counters.Snapshot();
  for (auto& counter : rooms_.cache.Counters()) {
    counters.push_back(std::move(counter));
  }
  for (auto& time : rooms_.pass_times.Snapshot()) {
    counters.push_back(std::move(time));
  }
  std::sort(counters.begin(), counters.end());
  for (const auto& [name, value] : counters) {
    wire::Counter& counter = *reply->add_counters();
    counter.set_name(name);
    counter.set_value(value);
  }
  reply->set_uptime_ms(absl::ToInt64Milliseconds(absl::Now() - begun_));
  reply->set_version(facts_.version);
  reply->set_data_folder(facts_.data_folder);
  return AtOnce(context);
}

ServerUnaryReactor* AdminService::Jobs(CallbackServerContext* context,
                                       const wire::JobsRequest*,
                                       wire::JobsReply* reply) {
  for (const JobView& view : rooms_.jobs.Snapshot()) {
    wire::Job& job = *reply->add_jobs();
    job.set_id(view.id);
    job.set_compile_key(view.task->key.digest.ToBytes());
    job.set_state(view.running ? "running" : "queued");
    job.set_stage(StageText(view));
    job.set_age_ms(absl::ToInt64Milliseconds(view.age));
    job.set_waiters(static_cast<uint32_t>(view.waiters));
    job.set_graph_name(view.graph_name);
  }
  return AtOnce(context);
}

ServerUnaryReactor* AdminService::Workers(CallbackServerContext* context,
                                          const wire::WorkersRequest*,
                                          wire::WorkersReply* reply) {
  for (const WorkerView& view : rooms_.pool.Snapshot()) {
    wire::Worker& worker = *reply->add_workers();
    worker.set_index(static_cast<uint32_t>(view.index));
    worker.set_pid(view.pid);
    worker.set_state(view.state);
    worker.set_compile_key(view.key);
    worker.set_jobs_done(static_cast<uint64_t>(view.requests_done));
    worker.set_restarts(static_cast<uint64_t>(view.restarts));
    worker.set_resident_bytes(static_cast<uint64_t>(view.resident_bytes));
  }
  const wire::HelloReply identity = rooms_.pool.identity();
  for (const wire::Toolchain& tool : identity.toolchains()) {
    reply->add_toolchains(
        tool.missing().empty()
            ? absl::StrCat(tool.name(), " ", tool.version())
            : absl::StrCat(tool.name(), " missing: ", tool.missing()));
  }
  return AtOnce(context);
}

ServerUnaryReactor* AdminService::List(CallbackServerContext* context,
                                       const wire::ListRequest* request,
                                       wire::ListReply* reply) {
  return OnThread(rooms_.threads, context, reply, [this, request] {
    return ListEntries(rooms_.cache.artifacts(), *request);
  });
}

ServerUnaryReactor* AdminService::Show(CallbackServerContext* context,
                                       const wire::ShowRequest* request,
                                       wire::ShowReply* reply) {
  return OnThread(rooms_.threads, context, reply, [this, request] {
    return ShowEntry(rooms_.cache.artifacts(), *request);
  });
}

ServerUnaryReactor* AdminService::Explain(CallbackServerContext* context,
                                          const wire::ExplainRequest* request,
                                          wire::ExplainReply* reply) {
  return OnThread(rooms_.threads, context, reply, [this, request] {
    return ExplainKey(rooms_.cache.artifacts(), rooms_.cache.tuning(),
                      *rooms_.pool.build(), *request);
  });
}

ServerUnaryReactor* AdminService::Purge(CallbackServerContext* context,
                                        const wire::PurgeRequest* request,
                                        wire::PurgeReply* reply) {
  return OnThread(rooms_.threads, context, reply, [this, request] {
    return PurgeEntries(rooms_.cache.artifacts(), rooms_.cache.units(),
                        *request);
  });
}

ServerUnaryReactor* AdminService::Tune(CallbackServerContext* context,
                                       const wire::TuneRequest* request,
                                       wire::TuneReply* reply) {
  return OnThread(rooms_.threads, context, reply, [this, request] {
    return TuneGraph(*request, rooms_.pool, rooms_.cache.tuning(),
                     rooms_.counters);
  });
}

ServerUnaryReactor* AdminService::Drain(CallbackServerContext* context,
                                        const wire::DrainRequest*,
                                        wire::DrainReply*) {
  start_drain_();
  return AtOnce(context);
}

}  // namespace kiln

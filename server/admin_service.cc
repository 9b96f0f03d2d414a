#include "server/admin_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/cache_namespace.h"
#include "server/cache_admin.h"
#include "server/key_admin.h"
#include "server/tune_flow.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// The namespace that a request names, or all of them.
std::string NamespaceOr(const std::string& named) {
  return named.empty() ? std::string(kEveryNamespace) : named;
}

std::string StageText(const JobView& job) {
  if (job.progress.stage == JobStage::kElsewhere) return "elsewhere";
  if (!job.running) return "-";
  switch (job.progress.stage) {
    case JobStage::kQueued:
    case JobStage::kElsewhere:
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

absl::StatusOr<Grant> GrantOf(const wire::AddTokenRequest& request) {
  const std::optional<Role> role = RoleNamed(request.role());
  if (!role.has_value()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("token ", request.name().substr(0, 80),
                     ": found the role \"", request.role().substr(0, 40),
                     "\", due reader, submitter, publisher or "
                     "admin"));
  }
  return Grant{*role,
               {request.namespaces().begin(), request.namespaces().end()}};
}

}  // namespace

template <typename Reply, typename Work>
ServerUnaryReactor* AdminService::Serve(CallbackServerContext* context,
                                        Reply* reply, Act act, Work work) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<Caller> caller = rooms_.gate.Admit(*context);
  absl::Status begun = caller.status();
  if (begun.ok()) {
    begun =
        rooms_.gate.Require(*caller, act.role, act.cache_namespace, act.name);
  }
  if (begun.ok()) {
    begun = threads_.Run([this, context, reactor, reply, work,
                          caller = *std::move(caller), act = std::move(act)] {
      absl::StatusOr<Reply> made = work(caller);
      if (act.changes)
        rooms_.gate.Record(caller, act.name, act.subject, made.status());
      if (made.ok()) *reply = *std::move(made);
      reactor->Finish(EndCall(*context, made.status()));
    });
  }
  if (!begun.ok()) reactor->Finish(EndCall(*context, begun));
  return reactor;
}

void AdminService::FillStats(wire::StatsReply& reply) {
  auto counters = rooms_.counters.Snapshot();
  for (auto& counter : rooms_.cache.Counters()) {
    counters.push_back(std::move(counter));
  }
  for (auto& time : rooms_.pass_times.Snapshot()) {
    counters.push_back(std::move(time));
  }
  std::sort(counters.begin(), counters.end());
  for (const auto& [name, value] : counters) {
    wire::Counter& counter = *reply.add_counters();
    counter.set_name(name);
    counter.set_value(value);
  }
  reply.set_uptime_ms(absl::ToInt64Milliseconds(Since(begun_)));
  reply.set_version(facts_.version);
  reply.set_data_folder(facts_.data_folder);
}

void AdminService::FillJobs(wire::JobsReply& reply) {
  for (const JobView& view : rooms_.jobs.Snapshot()) {
    wire::Job& job = *reply.add_jobs();
    job.set_id(view.id);
    job.set_compile_key(view.task->key.digest.ToBytes());
    job.set_state(view.running ? "running" : "queued");
    job.set_stage(StageText(view));
    job.set_age_ms(absl::ToInt64Milliseconds(view.age));
    job.set_waiters(static_cast<uint32_t>(view.waiters));
    job.set_graph_name(view.graph_name);
  }
}

void AdminService::FillWorkers(wire::WorkersReply& reply) {
  for (const WorkerView& view : rooms_.pool.Snapshot()) {
    wire::Worker& worker = *reply.add_workers();
    worker.set_index(static_cast<uint32_t>(view.index));
    worker.set_pid(view.pid);
    worker.set_state(view.state);
    worker.set_compile_key(view.key);
    worker.set_jobs_done(static_cast<uint64_t>(view.requests_done));
    worker.set_restarts(static_cast<uint64_t>(view.restarts));
    worker.set_resident_bytes(static_cast<uint64_t>(view.resident_bytes));
    worker.set_sandbox(view.sandbox);
    worker.set_sandbox_lacks(view.sandbox_lacks);
  }
  const wire::HelloReply identity = rooms_.pool.identity();
  for (const wire::Toolchain& tool : identity.toolchains()) {
    *reply.add_toolchains() = tool;
  }
}

ServerUnaryReactor* AdminService::Stats(CallbackServerContext* context,
                                        const wire::StatsRequest*,
                                        wire::StatsReply* reply) {
  return Serve(context, reply, {.name = "stats"},
               [this](const Caller&) -> absl::StatusOr<wire::StatsReply> {
                 wire::StatsReply stats;
                 FillStats(stats);
                 return stats;
               });
}

ServerUnaryReactor* AdminService::Jobs(CallbackServerContext* context,
                                       const wire::JobsRequest*,
                                       wire::JobsReply* reply) {
  return Serve(context, reply, {.name = "jobs"},
               [this](const Caller&) -> absl::StatusOr<wire::JobsReply> {
                 wire::JobsReply jobs;
                 FillJobs(jobs);
                 return jobs;
               });
}

ServerUnaryReactor* AdminService::Workers(CallbackServerContext* context,
                                          const wire::WorkersRequest*,
                                          wire::WorkersReply* reply) {
  return Serve(context, reply, {.name = "workers"},
               [this](const Caller&) -> absl::StatusOr<wire::WorkersReply> {
                 wire::WorkersReply workers;
                 FillWorkers(workers);
                 return workers;
               });
}

ServerUnaryReactor* AdminService::ListQuarantine(
    CallbackServerContext* context, const wire::QuarantineRequest* request,
    wire::QuarantineReply* reply) {
  const bool clears =
      request->clear_all() || !request->clear_prefix_hex().empty();
  return Serve(
      context, reply,
      {.name = "quarantine",
       .changes = clears,
       .subject = request->ShortDebugString()},
      [this, request,
       clears](const Caller&) -> absl::StatusOr<wire::QuarantineReply> {
        wire::QuarantineReply all;
        if (clears) {
          all.set_cleared(static_cast<uint32_t>(rooms_.quarantine.Clear(
              request->clear_all() ? "" : request->clear_prefix_hex())));
        }
        for (const QuarantinedJob& job : rooms_.quarantine.List()) {
          wire::QuarantinedJob& out = *all.add_jobs();
          out.set_compile_key(job.key.ToBytes());
          out.set_graph_name(job.graph_name);
          out.set_caller(job.caller);
          out.set_why(job.why);
          out.set_left_ms(
              absl::ToInt64Milliseconds(Between(SteadyNow(), job.until)));
        }
        return all;
      });
}

ServerUnaryReactor* AdminService::List(CallbackServerContext* context,
                                       const wire::ListRequest* request,
                                       wire::ListReply* reply) {
  return Serve(context, reply,
               {.name = "list",
                .cache_namespace = NamespaceOr(request->cache_namespace())},
               [this, request](const Caller&) {
                 return ListEntries(rooms_.cache.artifacts(), *request);
               });
}

ServerUnaryReactor* AdminService::Show(CallbackServerContext* context,
                                       const wire::ShowRequest* request,
                                       wire::ShowReply* reply) {
  return Serve(context, reply,
               {.name = "show",
                .cache_namespace = NamespaceOr(request->cache_namespace())},
               [this, request](const Caller&) {
                 return ShowEntry(rooms_.cache.artifacts(), *request);
               });
}

ServerUnaryReactor* AdminService::Explain(CallbackServerContext* context,
                                          const wire::ExplainRequest* request,
                                          wire::ExplainReply* reply) {
  // A key may be anybody's; a request says whose it is.
  const bool by_request = request->has_request();
  const std::string asked = request->request().cache_namespace();
  const std::string cache_namespace = !by_request ? std::string(kEveryNamespace)
                                      : asked.empty()
                                          ? std::string(kDefaultNamespace)
                                          : asked;
  return Serve(
      context, reply, {.name = "explain", .cache_namespace = cache_namespace},
      [this, request, cache_namespace](const Caller& caller) {
        const bool sees_all =
            caller.Require(Role::kAdmin, kEveryNamespace, "explain").ok();
        return ExplainKey(rooms_.cache.artifacts(), rooms_.cache.tuning(),
                          *rooms_.pool.build(), *request,
                          sees_all ? "" : cache_namespace);
      });
}

ServerUnaryReactor* AdminService::Purge(CallbackServerContext* context,
                                        const wire::PurgeRequest* request,
                                        wire::PurgeReply* reply) {
  return Serve(context, reply,
               {.name = "purge",
                .cache_namespace = NamespaceOr(request->cache_namespace()),
                .changes = !request->dry_run(),
                .subject = request->ShortDebugString()},
               [this, request](const Caller&) {
                 return PurgeEntries(rooms_.cache.artifacts(),
                                     rooms_.cache.units(), *request);
               });
}

ServerUnaryReactor* AdminService::Pin(CallbackServerContext* context,
                                      const wire::PinRequest* request,
                                      wire::PinReply* reply) {
  return Serve(context, reply,
               {.name = request->unpin() ? "unpin" : "pin",
                .cache_namespace = NamespaceOr(request->cache_namespace()),
                .changes = true,
                .subject = request->ShortDebugString()},
               [this, request](const Caller&) {
                 return PinEntries(rooms_.cache.artifacts(), *request);
               });
}

// It concerns all namespaces, and so does the role it takes.
ServerUnaryReactor* AdminService::Maintain(CallbackServerContext* context,
                                           const wire::MaintainRequest* request,
                                           wire::MaintainReply* reply) {
  const bool begins =
      request->task() != wire::MaintainRequest::TASK_UNSPECIFIED;
  return Serve(context, reply,
               {.name = "maintain",
                .changes = begins || request->stop(),
                .subject = request->ShortDebugString()},
               [this, request,
                begins](const Caller&) -> absl::StatusOr<wire::MaintainReply> {
                 if (request->stop()) {
                   maintenance_.Stop();
                 } else if (begins) {
                   RETURN_IF_ERROR(maintenance_.Begin(request->task()));
                 }
                 return maintenance_.Report();
               });
}

// A winner is everybody's, whatever their namespace.
ServerUnaryReactor* AdminService::Tune(CallbackServerContext* context,
                                       const wire::TuneRequest* request,
                                       wire::TuneReply* reply) {
  return Serve(context, reply,
               {.name = "tune",
                .role = Role::kPublisher,
                .changes = true,
                .subject = request->compile().graph().name()},
               [this, request](const Caller&) {
                 return TuneGraph(*request, rooms_.pool, rooms_.cache.tuning(),
                                  rooms_.counters);
               });
}

ServerUnaryReactor* AdminService::Drain(CallbackServerContext* context,
                                        const wire::DrainRequest*,
                                        wire::DrainReply* reply) {
  return Serve(context, reply, {.name = "drain", .changes = true},
               [this](const Caller&) -> absl::StatusOr<wire::DrainReply> {
                 start_drain_();
                 return wire::DrainReply();
               });
}

ServerUnaryReactor* AdminService::AddToken(CallbackServerContext* context,
                                           const wire::AddTokenRequest* request,
                                           wire::AddTokenReply* reply) {
  return Serve(
      context, reply,
      {.name = "add token",
       .changes = true,
       .subject = request->ShortDebugString()},
      [this, request](const Caller&) -> absl::StatusOr<wire::AddTokenReply> {
        ASSIGN_OR_RETURN(const Grant grant, GrantOf(*request));
        wire::AddTokenReply made;
        ASSIGN_OR_RETURN(
            *made.mutable_token(),
            rooms_.tokens.Make(request->name(), grant,
                               absl::Milliseconds(request->life_ms())));
        return made;
      });
}

ServerUnaryReactor* AdminService::RevokeToken(
    CallbackServerContext* context, const wire::RevokeTokenRequest* request,
    wire::RevokeTokenReply* reply) {
  return Serve(
      context, reply,
      {.name = "revoke token", .changes = true, .subject = request->name()},
      [this, request](const Caller&) -> absl::StatusOr<wire::RevokeTokenReply> {
        RETURN_IF_ERROR(rooms_.tokens.Revoke(request->name()));
        return wire::RevokeTokenReply();
      });
}

ServerUnaryReactor* AdminService::ListTokens(CallbackServerContext* context,
                                             const wire::ListTokensRequest*,
                                             wire::ListTokensReply* reply) {
  return Serve(context, reply, {.name = "list tokens"},
               [this](const Caller&) -> absl::StatusOr<wire::ListTokensReply> {
                 wire::ListTokensReply tokens;
                 for (wire::Token& token : rooms_.tokens.List())
                   *tokens.add_tokens() = std::move(token);
                 return tokens;
               });
}

ServerUnaryReactor* AdminService::ListKeys(CallbackServerContext* context,
                                           const wire::ListKeysRequest*,
                                           wire::ListKeysReply* reply) {
  return Serve(context, reply, {.name = "list keys"},
               [this](const Caller&) -> absl::StatusOr<wire::ListKeysReply> {
                 return kiln::ListKeys(rooms_.keys);
               });
}

ServerUnaryReactor* AdminService::RotateKey(
    CallbackServerContext* context, const wire::RotateKeyRequest* request,
    wire::RotateKeyReply* reply) {
  return Serve(context, reply,
               {.name = "rotate key",
                .cache_namespace = NamespaceOr(request->cache_namespace()),
                .changes = true,
                .subject = NamespaceOr(request->cache_namespace())},
               [this, request](const Caller&) {
                 return kiln::RotateKey(rooms_.keys, *request);
               });
}

ServerUnaryReactor* AdminService::RevokeKey(
    CallbackServerContext* context, const wire::RevokeKeyRequest* request,
    wire::RevokeKeyReply* reply) {
  return Serve(context, reply,
               {.name = "revoke key",
                .changes = true,
                .subject = request->key_hex().substr(0, 80)},
               [this, request](const Caller&) {
                 return kiln::RevokeKey(rooms_.keys, *request);
               });
}

}  // namespace kiln

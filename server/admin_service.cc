#include "server/admin_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/key/cache_namespace.h"
#include "server/act_subjects.h"
#include "server/cache_admin.h"
#include "server/key_admin.h"
#include "server/unary_call.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

// Each may have a name of 4 KiB.
constexpr uint32_t kJobsAPage = 500;

using Context = grpc::CallbackServerContext;
using Bytes = grpc::ByteBuffer;
using Reactor = grpc::ServerUnaryReactor;

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
                     "\", expected reader, submitter, publisher or "
                     "admin"));
  }
  return Grant{*role,
               {request.namespaces().begin(), request.namespaces().end()}};
}

}  // namespace

template <typename Request, typename Plan, typename Work>
Reactor* AdminService::Serve(Call call, Plan plan, Work work) {
  auto* const reactor = new UnaryCall(*call.context, answers_, rooms_.unread);
  absl::StatusOr<Caller> caller = rooms_.gate.Admit(*call.context);
  absl::Status begun = caller.status();
  // Who tunes has no place; there are two of them.
  const bool has_place = call.threads == nullptr;
  const auto place = std::make_shared<FairShare::Part>();
  if (begun.ok() && has_place) begun = reactor->TakePlace(caller->identity);
  if (begun.ok() && has_place) {
    absl::StatusOr<FairShare::Part> taken = shares_.Take(caller->identity);
    begun = taken.status();
    if (taken.ok()) *place = *std::move(taken);
  }
  if (begun.ok()) {
    CallThreads& threads = call.threads != nullptr ? *call.threads : threads_;
    begun = threads.Run([=, this, caller = *std::move(caller)] {
      absl::Status status = Answer<Request>(call, caller, plan, work);
      if (status.ok() && has_place) {
        status = reactor->TakeBytes(static_cast<int64_t>(call.reply->Length()));
        if (!status.ok()) call.reply->Clear();
      }
      // Before the caller has its answer: its next call finds the place.
      place->Release();
      reactor->Answer(status);
    });
  }
  if (!begun.ok()) reactor->Answer(begun);
  return reactor;
}

template <typename Request, typename Plan, typename Work>
absl::Status AdminService::Answer(const Call& call, const Caller& caller,
                                  const Plan& plan, const Work& work) {
  Request request;
  RETURN_IF_ERROR(Decode(*call.request, call.max_bytes, "request", request));
  const Act act = plan(request);
  // What is no name is no subject of a refusal either.
  if (act.cache_namespace != kEveryNamespace)
    RETURN_IF_ERROR(NamespaceNamed(act.cache_namespace).status());
  RETURN_IF_ERROR(rooms_.gate.Require(caller, act.role, act.cache_namespace,
                                      act.name, act.subject));
  const auto made = work(request, Asker{caller, *call.context});
  if (act.changes)
    rooms_.gate.Record(caller, act.name, act.subject, made.status());
  if (made.ok()) *call.reply = Encode(*made);
  return made.status();
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

void AdminService::FillJobs(const wire::JobsRequest& request,
                            wire::JobsReply& reply) {
  const uint32_t asked = request.limit();
  const uint32_t most = asked == 0 ? kJobsAPage : std::min(asked, kJobsAPage);
  for (const JobView& view : rooms_.jobs.Snapshot()) {
    if (!request.after().empty() && !BeganBefore(request.after(), view.id))
      continue;
    if (reply.jobs_size() == static_cast<int>(most)) {
      reply.set_next(reply.jobs().rbegin()->id());
      return;
    }
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

Reactor* AdminService::Stats(Context* context, const Bytes* request,
                             Bytes* reply) {
  return Serve<wire::StatsRequest>(
      {context, request, reply},
      [](const wire::StatsRequest&) { return Act{.name = "stats"}; },
      [this](const wire::StatsRequest&,
             const Asker&) -> absl::StatusOr<wire::StatsReply> {
        wire::StatsReply stats;
        FillStats(stats);
        return stats;
      });
}

Reactor* AdminService::Jobs(Context* context, const Bytes* request,
                            Bytes* reply) {
  return Serve<wire::JobsRequest>(
      {context, request, reply},
      [](const wire::JobsRequest&) { return Act{.name = "jobs"}; },
      [this](const wire::JobsRequest& asked,
             const Asker&) -> absl::StatusOr<wire::JobsReply> {
        if (!asked.after().empty() && !absl::StartsWith(asked.after(), "j-")) {
          return MakeError(
              ErrorReason::kBadOption,
              absl::StrCat("jobs: found after \"", asked.after().substr(0, 40),
                           "\", expected `next` of the page before"));
        }
        wire::JobsReply jobs;
        FillJobs(asked, jobs);
        return jobs;
      });
}

Reactor* AdminService::Workers(Context* context, const Bytes* request,
                               Bytes* reply) {
  return Serve<wire::WorkersRequest>(
      {context, request, reply},
      [](const wire::WorkersRequest&) { return Act{.name = "workers"}; },
      [this](const wire::WorkersRequest&,
             const Asker&) -> absl::StatusOr<wire::WorkersReply> {
        wire::WorkersReply workers;
        FillWorkers(workers);
        return workers;
      });
}

Reactor* AdminService::ListQuarantine(Context* context, const Bytes* request,
                                      Bytes* reply) {
  const auto clears = [](const wire::QuarantineRequest& asked) {
    return asked.clear_all() || !asked.clear_prefix_hex().empty();
  };
  return Serve<wire::QuarantineRequest>(
      {context, request, reply},
      [clears](const wire::QuarantineRequest& asked) {
        return Act{.name = "quarantine",
                   .changes = clears(asked),
                   .subject = SubjectOf(asked)};
      },
      [this, clears](const wire::QuarantineRequest& asked,
                     const Asker&) -> absl::StatusOr<wire::QuarantineReply> {
        wire::QuarantineReply all;
        RETURN_IF_ERROR(CheckKeyPrefix(asked.clear_prefix_hex()));
        if (clears(asked)) {
          all.set_cleared(static_cast<uint32_t>(rooms_.quarantine.Clear(
              asked.clear_all() ? "" : asked.clear_prefix_hex())));
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

Reactor* AdminService::List(Context* context, const Bytes* request,
                            Bytes* reply) {
  return Serve<wire::ListRequest>(
      {context, request, reply},
      [](const wire::ListRequest& asked) {
        return Act{.name = "list",
                   .cache_namespace = NamespaceOr(asked.cache_namespace())};
      },
      [this](const wire::ListRequest& asked, const Asker& asker) {
        return ListEntries(rooms_.cache.artifacts(), asked,
                           [&asker] { return asker.IsGone(); });
      });
}

Reactor* AdminService::Show(Context* context, const Bytes* request,
                            Bytes* reply) {
  return Serve<wire::ShowRequest>(
      {context, request, reply},
      [](const wire::ShowRequest& asked) {
        return Act{.name = "show",
                   .cache_namespace = NamespaceOr(asked.cache_namespace())};
      },
      [this](const wire::ShowRequest& asked, const Asker&) {
        return ShowEntry(rooms_.cache.artifacts(), asked);
      });
}

Reactor* AdminService::Explain(Context* context, const Bytes* request,
                               Bytes* reply) {
  // A key may be anybody's; a request says whose it is.
  const auto whose = [](const wire::ExplainRequest& asked) {
    if (!asked.has_request()) return NamespaceOr(asked.cache_namespace());
    const std::string& named = asked.request().cache_namespace();
    return named.empty() ? std::string(kDefaultNamespace) : named;
  };
  return Serve<wire::ExplainRequest>(
      {context, request, reply, facts_.max_message_bytes},
      [whose](const wire::ExplainRequest& asked) {
        return Act{.name = "explain", .cache_namespace = whose(asked)};
      },
      [this, whose](const wire::ExplainRequest& asked, const Asker& asker) {
        const bool sees_all =
            asker.caller.Require(Role::kAdmin, kEveryNamespace, "explain").ok();
        return ExplainKey(rooms_.cache.artifacts(), rooms_.cache.tuning(),
                          *rooms_.pool.build(), asked,
                          sees_all ? asked.cache_namespace() : whose(asked),
                          [&asker] { return asker.IsGone(); });
      });
}

Reactor* AdminService::Purge(Context* context, const Bytes* request,
                             Bytes* reply) {
  return Serve<wire::PurgeRequest>(
      {context, request, reply},
      [](const wire::PurgeRequest& asked) {
        return Act{.name = "purge",
                   .cache_namespace = NamespaceOr(asked.cache_namespace()),
                   .changes = !asked.dry_run(),
                   .subject = SubjectOf(asked)};
      },
      [this](const wire::PurgeRequest& asked, const Asker& asker) {
        return PurgeEntries(rooms_.cache.artifacts(), rooms_.cache.units(),
                            asked, [&asker] { return asker.IsGone(); });
      });
}

Reactor* AdminService::Pin(Context* context, const Bytes* request,
                           Bytes* reply) {
  return Serve<wire::PinRequest>(
      {context, request, reply},
      [](const wire::PinRequest& asked) {
        return Act{.name = asked.unpin() ? "unpin" : "pin",
                   .cache_namespace = NamespaceOr(asked.cache_namespace()),
                   .changes = true,
                   .subject = SubjectOf(asked)};
      },
      [this](const wire::PinRequest& asked, const Asker& asker) {
        return PinEntries(rooms_.cache.artifacts(), asked,
                          [&asker] { return asker.IsGone(); });
      });
}

// It concerns all namespaces, and so does the role it takes.
Reactor* AdminService::Maintain(Context* context, const Bytes* request,
                                Bytes* reply) {
  const auto begins = [](const wire::MaintainRequest& asked) {
    return asked.task() != wire::MaintainRequest::TASK_UNSPECIFIED;
  };
  return Serve<wire::MaintainRequest>(
      {context, request, reply},
      [begins](const wire::MaintainRequest& asked) {
        return Act{.name = "maintain",
                   .changes = begins(asked) || asked.stop(),
                   .subject = SubjectOf(asked)};
      },
      [this, begins](const wire::MaintainRequest& asked,
                     const Asker&) -> absl::StatusOr<wire::MaintainReply> {
        if (asked.stop()) {
          maintenance_.Stop();
        } else if (begins(asked)) {
          RETURN_IF_ERROR(maintenance_.Begin(asked.task()));
        }
        return maintenance_.Report();
      });
}

// A winner is everybody's, whatever their namespace.
Reactor* AdminService::Tune(Context* context, const Bytes* request,
                            Bytes* reply) {
  return Serve<wire::TuneRequest>(
      {context, request, reply, facts_.max_message_bytes, &tune_threads_},
      [](const wire::TuneRequest& asked) {
        return Act{.name = "tune",
                   .role = Role::kPublisher,
                   .changes = true,
                   .subject = asked.compile().graph().name()};
      },
      [this](const wire::TuneRequest& asked, const Asker&) {
        return tuner_.Tune(asked);
      });
}

Reactor* AdminService::Drain(Context* context, const Bytes* request,
                             Bytes* reply) {
  return Serve<wire::DrainRequest>(
      {context, request, reply},
      [](const wire::DrainRequest&) {
        return Act{.name = "drain", .changes = true};
      },
      [this](const wire::DrainRequest&,
             const Asker&) -> absl::StatusOr<wire::DrainReply> {
        start_drain_();
        return wire::DrainReply();
      });
}

Reactor* AdminService::AddToken(Context* context, const Bytes* request,
                                Bytes* reply) {
  return Serve<wire::AddTokenRequest>(
      {context, request, reply},
      [](const wire::AddTokenRequest& asked) {
        return Act{
            .name = "add token", .changes = true, .subject = SubjectOf(asked)};
      },
      [this](const wire::AddTokenRequest& asked,
             const Asker&) -> absl::StatusOr<wire::AddTokenReply> {
        ASSIGN_OR_RETURN(const Grant grant, GrantOf(asked));
        wire::AddTokenReply made;
        ASSIGN_OR_RETURN(
            *made.mutable_token(),
            rooms_.tokens.Make(asked.name(), grant,
                               absl::Milliseconds(asked.life_ms())));
        return made;
      });
}

Reactor* AdminService::RevokeToken(Context* context, const Bytes* request,
                                   Bytes* reply) {
  return Serve<wire::RevokeTokenRequest>(
      {context, request, reply},
      [](const wire::RevokeTokenRequest& asked) {
        return Act{.name = "revoke token",
                   .changes = true,
                   .subject = SubjectOf(asked)};
      },
      [this](const wire::RevokeTokenRequest& asked,
             const Asker&) -> absl::StatusOr<wire::RevokeTokenReply> {
        RETURN_IF_ERROR(rooms_.tokens.Revoke(asked.name()));
        return wire::RevokeTokenReply();
      });
}

Reactor* AdminService::ListTokens(Context* context, const Bytes* request,
                                  Bytes* reply) {
  return Serve<wire::ListTokensRequest>(
      {context, request, reply},
      [](const wire::ListTokensRequest&) { return Act{.name = "list tokens"}; },
      [this](const wire::ListTokensRequest&,
             const Asker&) -> absl::StatusOr<wire::ListTokensReply> {
        wire::ListTokensReply tokens;
        for (wire::Token& token : rooms_.tokens.List())
          *tokens.add_tokens() = std::move(token);
        return tokens;
      });
}

Reactor* AdminService::ListKeys(Context* context, const Bytes* request,
                                Bytes* reply) {
  return Serve<wire::ListKeysRequest>(
      {context, request, reply},
      [](const wire::ListKeysRequest&) { return Act{.name = "list keys"}; },
      [this](const wire::ListKeysRequest&,
             const Asker&) -> absl::StatusOr<wire::ListKeysReply> {
        return kiln::ListKeys(rooms_.keys);
      });
}

Reactor* AdminService::RotateKey(Context* context, const Bytes* request,
                                 Bytes* reply) {
  return Serve<wire::RotateKeyRequest>(
      {context, request, reply},
      [](const wire::RotateKeyRequest& asked) {
        return Act{.name = "rotate key",
                   .cache_namespace = NamespaceOr(asked.cache_namespace()),
                   .changes = true,
                   .subject = NamespaceOr(asked.cache_namespace())};
      },
      [this](const wire::RotateKeyRequest& asked, const Asker&) {
        return kiln::RotateKey(rooms_.keys, asked);
      });
}

Reactor* AdminService::RevokeKey(Context* context, const Bytes* request,
                                 Bytes* reply) {
  return Serve<wire::RevokeKeyRequest>(
      {context, request, reply},
      [](const wire::RevokeKeyRequest& asked) {
        return Act{
            .name = "revoke key", .changes = true, .subject = SubjectOf(asked)};
      },
      [this](const wire::RevokeKeyRequest& asked, const Asker&) {
        return kiln::RevokeKey(rooms_.keys, asked);
      });
}

}  // namespace kiln

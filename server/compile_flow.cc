#include "server/compile_flow.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/guard_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/cache_look.h"
#include "server/detached_status.h"
#include "server/work_queue.h"

namespace kiln {
namespace {

// What this daemon's toolchain makes may be too new for a caller's driver.
absl::Status CheckDriver(const CompileTask& task,
                         const CompiledArtifact& made) {
  const uint32_t driver = task.driver_cuda_version;
  if (driver == 0 || made.least_driver_cuda_version <= driver)
    return absl::OkStatus();
  return MakeError(
      ErrorReason::kArtifactIncompatible,
      absl::StrCat("graph ", task.graph_name, ": built with ", task.toolchain,
                   ", which needs a driver of CUDA ",
                   made.least_driver_cuda_version, " and later; yours runs ",
                   driver));
}

}  // namespace

// The story of one compile request. Read this first; each line is a room.
// What a job does once it runs is told in compile_job.cc.
void CompileFlow::Run(const Caller& caller, const wire::CompileRequest& request,
                      const Call& call) {
  const absl::Status begun = Begin(caller, request, call);
  if (!begun.ok()) call->Answer(begun);
}

absl::Status CompileFlow::Begin(const Caller& caller,
                                const wire::CompileRequest& request,
                                const Call& call) {
  ASSIGN_OR_RETURN(const std::string cache_namespace,
                   NamespaceNamed(request.cache_namespace()));
  RETURN_IF_ERROR(
      gate_.Require(caller, Role::kSubmitter, cache_namespace, "compile"));
  RETURN_IF_ERROR(call->EnterNamespace(cache_namespace));
  {
    MutexLock lock(&call->mu_);
    call->flow_ = this;
    call->caller_ = caller;
  }
  ASSIGN_OR_RETURN(TaskPtr task, MakeTask(request, *pool_.build(), tuning_));
  return Serve(std::move(task), call);
}

// In memory, near, then far.
absl::Status CompileFlow::Serve(TaskPtr task, const Call& call) {
  std::shared_ptr<const ReadyIndex> missed;
  if (ServeFromMemory(*task, *call, &missed)) return absl::OkStatus();
  CacheAnswer near =
      cache_.Lookup(task->key.digest, task->query(), missed.get());
  if (near.hit() || far_ == nullptr)
    return ServeFound(std::move(task), std::move(near), call);
  FarAsk ask = {.key = task->key.digest,
                .values = task->values,
                .decisions = task->tuning,
                .driver_cuda_version = task->driver_cuda_version,
                .cache_namespace = task->request().cache_namespace()};
  far_->Start(call->CallerName(), std::move(ask),
              [this, task, call, near](const CacheAnswer& far) {
                const absl::Status served =
                    ServeFound(task, far.hit() ? far : near, call);
                if (!served.ok()) call->Answer(served);
              });
  return absl::OkStatus();
}

bool CompileFlow::ServeFromMemory(const CompileTask& task, FlowCall& call,
                                  std::shared_ptr<const ReadyIndex>* missed) {
  std::optional<ReadyHit> ready =
      cache_.LookupInMemory(task.key.digest, task.query(), missed);
  if (!ready.has_value()) return false;
  CountLook(CacheOutcome::kHit, task.key.digest, LookFor::kCompile, counters_);
  AnswerHit(call, EventOfHit(task, *std::move(ready)));
  return true;
}

void CompileFlow::AnswerHit(FlowCall& call, SharedAnswer event) {
  const absl::Status room = call.TakeBytes(event.bytes());
  if (room.ok()) {
    call.Answer(std::move(event));
  } else {
    call.Answer(room);
  }
}

absl::Status CompileFlow::ServeFound(TaskPtr task, CacheAnswer cached,
                                     const Call& call) {
  // What the disk gave is in memory now, unless it is too large for that.
  if (cached.hit() && ServeFromMemory(*task, *call)) return absl::OkStatus();
  const LogScope scope({{"key", task->key.ShortHex()}});
  CountLook(cached.outcome, task->key.digest, LookFor::kCompile, counters_);
  if (cached.hit()) {
    AnswerHit(*call, EventOfHit(*task, hits_.Share(cached)));
    return absl::OkStatus();
  }
  // The one line of a compile: hits, and the lookups that come before, have
  // counters.
  LogInfo("cache.lookup", {{"outcome", OutcomeName(cached.outcome)}});

  // Before the job, which may end at once.
  {
    MutexLock lock(&call->mu_);
    call->task_ = task;
  }
  ASSIGN_OR_RETURN(const TaskPtr of_job,
                   jobs_.Join(task->job_key, task, task->graph_name, call));
  if (of_job != task) {
    MutexLock lock(&call->mu_);
    if (call->task_ == task) call->task_ = SharedWith(*task, *of_job);
  }
  // Who went while it was put on the job could not leave it.
  if (!call->StillWaits().ok()) Leave(*call);
  return absl::OkStatus();
}

void FlowCall::OnOutcome(JobRole role, const JobOutcome& outcome) {
  CompileFlow* flow = nullptr;
  {
    MutexLock lock(&mu_);
    flow = flow_;
  }
  const absl::Status went =
      flow->GoOn(role, outcome, std::shared_ptr<FlowCall>(shared_from_this()));
  if (!went.ok()) Answer(went);
}

// The job of the call has ended.
absl::Status CompileFlow::GoOn(JobRole role, const JobOutcome& outcome,
                               const Call& call) {
  TaskPtr task;
  {
    MutexLock lock(&call->mu_);
    task = call->task_;
  }
  if (ClassesMayBeAtFault(outcome.status, *task))
    return ServeBySizes(*task, call);
  if (CompilersWereReplaced(outcome.status))
    return ServeRenewed(*task, Detached(outcome.status), call);
  if (!outcome.status.ok()) return Detached(outcome.status);
  // Classes of sizes shaped this artifact: mine must fit its guards too.
  const CompiledArtifact& made = *outcome.artifact;
  if (!GuardsHold(made.guards, task->values))
    return ServeWithout(*task, made.guards, call);
  RETURN_IF_ERROR(CheckDriver(*task, made));
  call->Answer(SharedAnswer(role == JobRole::kLeader ? made.leader_event
                                                     : made.joined_event));
  return absl::OkStatus();
}

absl::Status CompileFlow::ServeBySizes(const CompileTask& task,
                                       const Call& call) {
  ASSIGN_OR_RETURN(TaskPtr again, TaskBySizes(task, *pool_.build(), tuning_));
  LogInfo("classes.refused", {});
  return Serve(std::move(again), call);
}

absl::Status CompileFlow::ServeRenewed(const CompileTask& task,
                                       const absl::Status& replaced,
                                       const Call& call) {
  ASSIGN_OR_RETURN(TaskPtr again,
                   TaskRenewed(task, replaced, *pool_.build(), tuning_));
  LogInfo("compilers.replaced", {{"renewals", again->renewals}});
  return Serve(std::move(again), call);
}

absl::Status CompileFlow::ServeWithout(const CompileTask& task,
                                       const wire::GuardSet& guards,
                                       const Call& call) {
  ASSIGN_OR_RETURN(TaskPtr again,
                   TaskWithout(task, guards, *pool_.build(), tuning_));
  LogInfo("guards.failed", {{"refusals", again->refusals}});
  return Serve(std::move(again), call);
}

void CompileFlow::Leave(FlowCall& call) {
  TaskPtr task;
  {
    MutexLock lock(&call.mu_);
    task = call.task_;
  }
  if (task != nullptr) jobs_.Leave(task->job_key, call);
  call.Answer(absl::CancelledError("call: the caller has gone"));
}

// The story of one lookup.
void CompileFlow::Lookup(const Caller& caller,
                         const wire::LookupRequest& request,
                         const MemoryMiss& missed, const LookupDone& done) {
  absl::StatusOr<LookupAsk> read = ReadLookup(request);
  if (!read.ok()) return done(read.status());
  const absl::Status allowed =
      gate_.Require(caller, Role::kReader, read->cache_namespace, "lookup");
  if (!allowed.ok()) return done(allowed);
  const Digest key = read->key;
  FarAsk ask = {.key = key,
                .values = std::move(read->values),
                .decisions = tuning_.DecisionsFor(read->target),
                .driver_cuda_version = read->driver_cuda_version,
                .cache_namespace = std::move(read->cache_namespace)};
  const bool as_then = missed.decisions == ask.decisions;
  CacheAnswer near =
      cache_.Lookup(key, ask.query(), as_then ? missed.index.get() : nullptr);
  if (near.hit() || far_ == nullptr) {
    CountLook(near.outcome, key, LookFor::kLookup, counters_);
    // What the disk gave is in memory now, unless it is too large for that.
    std::optional<ReadyHit> ready;
    if (near.hit()) ready = cache_.LookupInMemory(key, ask.query());
    return done(ready.has_value() ? LookupReplyOf(*std::move(ready))
                                  : ReplyOf(near));
  }
  far_->Start(caller.identity, std::move(ask),
              [this, key, near, done](const CacheAnswer& far) {
                const CacheAnswer& answer = far.hit() ? far : near;
                CountLook(answer.outcome, key, LookFor::kLookup, counters_);
                done(ReplyOf(answer));
              });
}

SharedAnswer CompileFlow::ReplyOf(const CacheAnswer& answer) {
  return answer.hit() ? LookupReplyOf(hits_.Share(answer))
                      : LookupReplyOf(answer.outcome);
}

absl::StatusOr<std::optional<ReadyHit>> CompileFlow::LookupInMemory(
    const Caller& caller, const LookupAsk& ask, MemoryMiss& missed) {
  RETURN_IF_ERROR(
      gate_.Require(caller, Role::kReader, ask.cache_namespace, "lookup"));
  missed.decisions = tuning_.DecisionsFor(ask.target);
  auto found =
      cache_.LookupInMemory(ask.key,
                            {.values = ask.values,
                             .decisions = *missed.decisions,
                             .driver_cuda_version = ask.driver_cuda_version,
                             .cache_namespace = ask.cache_namespace},
                            &missed.index);
  if (found.has_value())
    CountLook(CacheOutcome::kHit, ask.key, LookFor::kLookup, counters_);
  return found;
}

absl::StatusOr<LookupAsk> CompileFlow::ReadLookup(
    const wire::LookupRequest& request) const {
  const std::optional<Digest> total =
      Digest::FromBytes(request.request_digest());
  if (!total.has_value()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("request_digest: found ", request.request_digest().size(),
                     " bytes, expected 32"));
  }
  ASSIGN_OR_RETURN(std::string cache_namespace,
                   NamespaceNamed(request.cache_namespace()));
  if (request.target().kind_case() == wire::Target::KIND_NOT_SET)
    return MakeError(ErrorReason::kBadTarget, "target: not set");
  std::shared_ptr<const BuildIdentity> build = pool_.build();
  const Digest key = CompileKeyDigest(*total, *build, request.target());
  return LookupAsk{.key = key,
                   .build = std::move(build),
                   .target = request.target(),
                   .values = {request.values().values().begin(),
                              request.values().values().end()},
                   .driver_cuda_version = request.driver_cuda_version(),
                   .cache_namespace = std::move(cache_namespace)};
}

}  // namespace kiln

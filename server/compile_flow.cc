#include "server/compile_flow.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/guard_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/key/cache_namespace.h"
#include "server/cache_look.h"

namespace kiln {
namespace {

// What this daemon's toolchain makes may be too new for a caller's driver.
absl::Status CheckDriver(const CompileTask& task,
                         const CompiledArtifact& made) {
  const uint32_t driver = task.request.driver_cuda_version();
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
absl::StatusOr<wire::CompileResult> CompileFlow::Run(
    const wire::CompileRequest& request, std::shared_ptr<Waiter> waiter,
    ProgressSink& sink) {
  ASSIGN_OR_RETURN(TaskPtr task, MakeTask(request, *pool_.build(), tuning_));
  const LogScope scope({{"key", task->key.ShortHex()}});
  return Serve(std::move(task), std::move(waiter), sink);
}

absl::StatusOr<wire::CompileResult> CompileFlow::Serve(
    TaskPtr task, std::shared_ptr<Waiter> waiter, ProgressSink& sink) {
  CacheAnswer cached = LookInCache(cache_, task->key.digest, task->query(),
                                   LookFor::kCompile, counters_);
  if (cached.hit()) return ResultFromCache(*task, std::move(cached));
  // The one line of a compile: hits, and the lookups that come before, have
  // counters.
  LogInfo("cache.lookup", {{"outcome", OutcomeName(cached.outcome)}});

  const absl::StatusOr<JobShare> share =
      jobs_.RunOnce(task->job_key, task, task->graph_name, waiter, sink);
  if (ClassesMayBeAtFault(share.status(), *task)) {
    return ServeBySizes(*task, std::move(waiter), sink);
  }
  RETURN_IF_ERROR(share.status());
  // Classes of sizes shaped this artifact: mine must fit its guards too.
  if (!GuardsHold(share->built->guards, task->values)) {
    return ServeWithout(*task, share->built->guards, std::move(waiter), sink);
  }
  RETURN_IF_ERROR(CheckDriver(*task, *share->built));
  return ResultFromJob(*task, *share);
}

absl::StatusOr<wire::CompileResult> CompileFlow::ServeBySizes(
    const CompileTask& task, std::shared_ptr<Waiter> waiter,
    ProgressSink& sink) {
  ASSIGN_OR_RETURN(TaskPtr again, TaskBySizes(task, *pool_.build(), tuning_));
  LogInfo("classes.refused", {});
  return Serve(std::move(again), std::move(waiter), sink);
}

absl::StatusOr<wire::CompileResult> CompileFlow::ServeWithout(
    const CompileTask& task, const wire::GuardSet& guards,
    std::shared_ptr<Waiter> waiter, ProgressSink& sink) {
  ASSIGN_OR_RETURN(TaskPtr again,
                   TaskWithout(task, guards, *pool_.build(), tuning_));
  LogInfo("guards.failed", {{"refusals", again->refusals}});
  return Serve(std::move(again), std::move(waiter), sink);
}

// The story of one lookup.
absl::StatusOr<wire::LookupReply> CompileFlow::Lookup(
    const wire::LookupRequest& request) {
  const std::optional<Digest> total =
      Digest::FromBytes(request.request_digest());
  if (!total.has_value()) {
    return MakeError(
        ErrorReason::kBadOption,
        absl::StrCat("request_digest: found ", request.request_digest().size(),
                     " bytes, 32 are due"));
  }
  RETURN_IF_ERROR(NamespaceNamed(request.cache_namespace()).status());
  if (request.target().kind_case() == wire::Target::KIND_NOT_SET)
    return MakeError(ErrorReason::kBadTarget, "target: not set");
  const auto tuning = tuning_.DecisionsFor(request.target());
  return LookupReplyOf(LookInCache(
      cache_, CompileKeyDigest(*total, *pool_.build(), request.target()),
      {request.values().values(), *tuning, request.driver_cuda_version()},
      LookFor::kLookup, counters_));
}

}  // namespace kiln

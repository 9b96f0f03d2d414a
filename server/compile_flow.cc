#include "server/compile_flow.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/guard_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/cache_look.h"

namespace kiln {

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
  CacheAnswer cached = LookInCache(cache_, task->key.digest, task->values,
                                   *task->tuning, LookFor::kCompile, counters_);
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
  return LookupReplyOf(LookInCache(
      cache_, CompileKeyDigest(*total, *pool_.build()),
      request.values().values(), *tuning_.DecisionsFor(request.target()),
      LookFor::kLookup, counters_));
}

}  // namespace kiln

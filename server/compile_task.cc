#include "server/compile_task.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cache/guard_match.h"
#include "proto/base/assemble.h"
#include "proto/base/status.h"
#include "proto/key/request_digest.h"

namespace kiln {
namespace {

// A name as logs and tables can show it.
std::string Printable(absl::string_view name) {
  constexpr size_t kShown = 60;
  std::string shown(name.substr(0, kShown));
  for (char& c : shown) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) c = '_';
  }
  return shown;
}

// A word of a later client counts as the least.
Urgency UrgencyOf(const wire::CompileRequest& request) {
  return request.urgency() == wire::URGENCY_INTERACTIVE  ? Urgency::kInteractive
         : request.urgency() == wire::URGENCY_BACKGROUND ? Urgency::kBackground
                                                         : Urgency::kPrewarm;
}

Digest DigestOf(const TuningDecisions& decisions) {
  Sha256 sha;
  for (const wire::TuningDecision& decision : decisions) {
    sha.AddField(decision.key()).AddField(decision.choice());
  }
  return sha.Finish();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CompileTask>> MakeTask(
    const wire::CompileRequest& request, const BuildIdentity& build,
    const TuningCache& tuning, DecideBy decide_by) {
  ASSIGN_OR_RETURN(CanonicalRequest canonical,
                   CanonicalizeRequest(request, decide_by));
  auto task = std::make_shared<CompileTask>();
  task->tuning = tuning.DecisionsFor(request.target());
  task->toolchain = build.ToolchainFor(request.target());
  task->key = MakeCompileKey(canonical.digest, build, request.target());
  task->request_digest = canonical.digest.total;
  task->build = build.compiler;
  // Not every decision bears on the job, but nobody knows which before it ran.
  task->job_key = Sha256()
                      .Add(canonical.digest.job.bytes())
                      .Add(task->key.digest.bytes())
                      .Add(DigestOf(*task->tuning).bytes())
                      .Finish();
  task->driver_cuda_version = request.driver_cuda_version();
  task->place = {.urgency = UrgencyOf(request),
                 .cache_namespace = canonical.request.cache_namespace(),
                 .bytes = static_cast<int64_t>(request.ByteSizeLong())};
  task->shared_request = std::make_shared<const wire::CompileRequest>(
      std::move(canonical.request));
  task->values = std::move(canonical.values);
  task->decided_by = canonical.decided_by;
  task->graph_name = Printable(request.graph().name());
  return task;
}

std::string SubjectOf(const CompileTask& task) {
  return absl::StrCat(task.request().cache_namespace(), " ",
                      task.key.digest.Hex(), " ", task.graph_name);
}

std::shared_ptr<const CompileTask> SharedWith(const CompileTask& task,
                                              const CompileTask& other) {
  auto shared = std::make_shared<CompileTask>(task);
  shared->shared_request = other.shared_request;
  shared->tuning = other.tuning;
  return shared;
}

namespace {

// `request` is that of `task`, asked again with the caller's own sizes.
absl::StatusOr<std::shared_ptr<CompileTask>> Again(const CompileTask& task,
                                                   wire::CompileRequest request,
                                                   const BuildIdentity& build,
                                                   const TuningCache& tuning,
                                                   DecideBy decide_by) {
  request.set_driver_cuda_version(task.driver_cuda_version);
  // The canonical request has classes for hints.
  for (int i = 0; i < request.graph().symbols_size(); ++i) {
    request.mutable_graph()->mutable_symbols(i)->set_hint(task.values[i]);
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const CompileTask> made,
                   MakeTask(request, build, tuning, decide_by));
  auto again = std::make_shared<CompileTask>(*made);
  again->graph_name = task.graph_name;
  again->place = task.place;
  again->refusals = task.refusals;
  again->renewals = task.renewals;
  return again;
}

absl::StatusOr<std::shared_ptr<const CompileTask>> AgainBySizes(
    const CompileTask& task, wire::CompileRequest request,
    const BuildIdentity& build, const TuningCache& tuning) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<CompileTask> again,
      Again(task, std::move(request), build, tuning, DecideBy::kSizes));
  ++again->refusals;
  return again;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CompileTask>> TaskWithout(
    const CompileTask& task, const wire::GuardSet& guards,
    const BuildIdentity& build, const TuningCache& tuning) {
  const wire::GuardSet broken = GuardsBroken(guards, task.values);
  if (task.refusals >= kMaxRefusals) {
    return MakeError(
        ErrorReason::kGuardFailed,
        absl::StrCat("job ", task.key.digest.ShortHex(), ": ", task.refusals,
                     " artifacts in turn do not fit the caller's sizes; the "
                     "last for: ",
                     broken.symbols_size() > 0 ? broken.symbols(0).origin()
                                               : "nothing it names"));
  }
  wire::CompileRequest request = task.request();
  request.mutable_forbidden()->MergeFrom(broken);
  return AgainBySizes(task, std::move(request), build, tuning);
}

bool ClassesMayBeAtFault(const absl::Status& refusal, const CompileTask& task) {
  if (task.decided_by == DecideBy::kSizes) return false;
  const std::optional<ErrorReason> reason = ReasonOf(refusal);
  if (reason != ErrorReason::kMalformedGraph &&
      reason != ErrorReason::kUnsupportedOp &&
      reason != ErrorReason::kTooLarge) {
    return false;
  }
  const wire::Graph& graph = task.request().graph();
  for (int i = 0; i < graph.symbols_size(); ++i) {
    if (graph.symbols(i).hint() != task.values[i]) return true;
  }
  return false;
}

absl::StatusOr<std::shared_ptr<const CompileTask>> TaskBySizes(
    const CompileTask& task, const BuildIdentity& build,
    const TuningCache& tuning) {
  return AgainBySizes(task, task.request(), build, tuning);
}

absl::StatusOr<std::shared_ptr<const CompileTask>> TaskRenewed(
    const CompileTask& task, const absl::Status& replaced,
    const BuildIdentity& build, const TuningCache& tuning) {
  if (task.renewals >= kMaxRenewals) return replaced;
  ASSIGN_OR_RETURN(const std::shared_ptr<CompileTask> again,
                   Again(task, task.request(), build, tuning, task.decided_by));
  ++again->renewals;
  return again;
}

}  // namespace kiln

#include "server/tune_flow.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/compile_task.h"
#include "server/task_label.h"

namespace kiln {
namespace {

// The keys of the task's kernels: those that its plan looks up. A plan made
// without decisions looks up the same.
absl::StatusOr<std::vector<std::string>> KeysOf(const CompileTask& task,
                                                WorkerPool& pool) {
  wire::WorkRequest work;
  *work.mutable_plan()->mutable_compile() = task.request();
  const auto pending = pool.Submit(std::move(work), LabelOf(task));
  ASSIGN_OR_RETURN(const wire::WorkReply* reply, pending->Wait());
  if (!reply->has_plan()) {
    return absl::InternalError(
        "worker: its reply to a plan request has no plan");
  }
  std::vector<std::string> keys;
  for (const std::string& line : reply->plan().tuned()) {
    keys.push_back(line.substr(0, line.find(' ')));
  }
  return keys;
}

absl::StatusOr<wire::TuningDecision> Measure(const CompileTask& task,
                                             const std::string& key,
                                             WorkerPool& pool) {
  wire::WorkRequest work;
  *work.mutable_measure()->mutable_compile() = task.request();
  work.mutable_measure()->set_key(key);
  const auto pending = pool.Submit(std::move(work), LabelOf(task));
  ASSIGN_OR_RETURN(const wire::WorkReply* reply, pending->Wait());
  if (!reply->has_measure() || reply->measure().key() != key ||
      reply->measure().choice().empty()) {
    return absl::InternalError(absl::StrCat(
        "worker: its reply to a measurement of ", key, " has no decision"));
  }
  return reply->measure();
}

}  // namespace

absl::StatusOr<wire::TuneReply> TuneGraph(const wire::TuneRequest& request,
                                          WorkerPool& pool, TuningCache& tuning,
                                          Counters& counters) {
  const wire::Target& target = request.compile().target();
  if (target.kind_case() == wire::Target::KIND_NOT_SET) {
    return MakeError(ErrorReason::kBadTarget, "tune: no target");
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const CompileTask> task,
                   MakeTask(request.compile(), *pool.build(), tuning));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, KeysOf(*task, pool));
  wire::TuneReply reply;
  for (const std::string& key : keys) {
    ASSIGN_OR_RETURN(const wire::TuningDecision decision,
                     Measure(*task, key, pool));
    const absl::Status stored = tuning.Insert(target, decision);
    if (!stored.ok()) {
      counters.Add(Count::kCacheStoreFailed);
      LogWarning("tuning.store_failed", {{"error", stored.ToString()}});
    }
    counters.Add(Count::kTuned);
    LogInfo("tuning.done",
            {{"key", decision.key()}, {"choice", decision.choice()}});
    wire::TunedKernel& kernel = *reply.add_kernels();
    kernel.set_key(decision.key());
    kernel.set_choice(decision.choice());
    *kernel.mutable_choices() = decision.choices();
    *kernel.mutable_seconds() = decision.seconds();
  }
  return reply;
}

}  // namespace kiln

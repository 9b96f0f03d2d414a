#include "server/tune_flow.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/tuning_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/compile_task.h"
#include "server/task_label.h"

namespace kiln {
namespace {

// What a plan looks up. One made without decisions looks up the same.
struct PlannedKey {
  std::string key;
  bool decided = false;
};

absl::StatusOr<std::vector<PlannedKey>> KeysOf(const CompileTask& task,
                                               WorkerPool& pool) {
  wire::WorkRequest work;
  *work.mutable_plan()->mutable_compile() = task.request();
  for (const wire::TuningDecision& decision : *task.tuning)
    *work.mutable_plan()->add_tuning() = decision;
  const auto pending = pool.Submit(std::move(work), LabelOf(task));
  ASSIGN_OR_RETURN(const wire::WorkReply* reply, pending->Wait());
  if (!reply->has_plan()) {
    return absl::InternalError(
        "worker: its reply to a plan request has no plan");
  }
  std::vector<PlannedKey> keys;
  for (const std::string& line : reply->plan().tuned()) {
    keys.push_back({line.substr(0, line.find(' ')), HasChoice(line)});
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

absl::StatusOr<wire::TunedKernel> Tuner::MeasureAndKeep(
    const CompileTask& task, const std::string& key) {
  ASSIGN_OR_RETURN(const wire::TuningDecision decision,
                   Measure(task, key, pool_));
  const absl::Status stored = tuning_.Insert(task.request().target(), decision);
  if (!stored.ok()) {
    counters_.Add(Count::kCacheStoreFailed);
    LogWarning("tuning.store_failed", {{"error", stored.ToString()}});
  }
  counters_.Add(Count::kTuned);
  LogInfo("tuning.done",
          {{"key", decision.key()}, {"choice", decision.choice()}});
  wire::TunedKernel kernel;
  kernel.set_key(decision.key());
  kernel.set_choice(decision.choice());
  *kernel.mutable_choices() = decision.choices();
  *kernel.mutable_seconds() = decision.seconds();
  return kernel;
}

absl::StatusOr<wire::TuneReply> Tuner::Tune(const wire::TuneRequest& request) {
  const wire::Target& target = request.compile().target();
  if (target.kind_case() == wire::Target::KIND_NOT_SET) {
    return MakeError(ErrorReason::kBadTarget, "tune: no target");
  }
  MutexLock turn(&turn_);
  ASSIGN_OR_RETURN(const std::shared_ptr<const CompileTask> task,
                   MakeTask(request.compile(), *pool_.build(), tuning_));
  ASSIGN_OR_RETURN(const std::vector<PlannedKey> keys, KeysOf(*task, pool_));
  wire::TuneReply reply;
  for (const PlannedKey& key : keys) {
    if (request.missing_only() && key.decided) continue;
    absl::StatusOr<wire::TunedKernel> kernel = MeasureAndKeep(*task, key.key);
    if (kernel.ok()) {
      *reply.add_kernels() = *std::move(kernel);
      continue;
    }
    // Where there is no device nothing else can be measured either.
    if (!request.missing_only() ||
        ReasonOf(kernel.status()) == ErrorReason::kNoDevice) {
      return kernel.status();
    }
    LogWarning("tuning.failed",
               {{"key", key.key}, {"error", kernel.status().ToString()}});
    reply.add_failures(absl::StrCat(key.key, ": ", kernel.status().message()));
  }
  return reply;
}

}  // namespace kiln

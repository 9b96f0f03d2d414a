#include "server/tune_flow.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/tuning_match.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "proto/base/tuned_line.h"
#include "server/compile_task.h"
#include "server/task_label.h"

namespace kiln {
namespace {

// What a plan looks up.
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
  for (const wire::TuningDecision& decision : *task.tuning)
    *work.mutable_measure()->add_tuning() = decision;
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

bool IsWay(absl::string_view key) { return absl::StartsWith(key, kWayKey); }

// A product that is padded or not, then what computes its parts, then all else. More are
// for decisions that meet new keys again.
constexpr int kMostRounds = 6;

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
  wire::TuneReply reply;
  std::set<std::string> measured;
  // Which keys a plan has depends on its ways.
  for (int round = 0; round < kMostRounds; ++round) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const CompileTask> task,
                     MakeTask(request.compile(), *pool_.build(), tuning_));
    ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                     KeysOfRound(*task, request.missing_only(), measured));
    if (keys.empty()) break;
    for (const std::string& key : keys) {
      measured.insert(key);
      RETURN_IF_ERROR(TuneKey(*task, key, request.missing_only(), reply));
    }
    if (!IsWay(keys.front())) break;
  }
  return reply;
}

absl::StatusOr<std::vector<std::string>> Tuner::KeysOfRound(
    const CompileTask& task, bool missing_only,
    const std::set<std::string>& measured) {
  ASSIGN_OR_RETURN(const std::vector<PlannedKey> planned, KeysOf(task, pool_));
  std::vector<std::string> ways, others;
  for (const PlannedKey& key : planned) {
    if (measured.contains(key.key) || (missing_only && key.decided)) continue;
    (IsWay(key.key) ? ways : others).push_back(key.key);
  }
  return ways.empty() ? others : ways;
}

absl::Status Tuner::TuneKey(const CompileTask& task, const std::string& key,
                            bool missing_only, wire::TuneReply& reply) {
  absl::StatusOr<wire::TunedKernel> kernel = MeasureAndKeep(task, key);
  if (kernel.ok()) {
    *reply.add_kernels() = *std::move(kernel);
    return absl::OkStatus();
  }
  // Where there is no device nothing else can be measured either.
  if (!missing_only || ReasonOf(kernel.status()) == ErrorReason::kNoDevice)
    return kernel.status();
  LogWarning("tuning.failed",
             {{"key", key}, {"error", kernel.status().ToString()}});
  reply.add_failures(absl::StrCat(key, ": ", kernel.status().message()));
  return absl::OkStatus();
}

}  // namespace kiln

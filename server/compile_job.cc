#include "server/compile_job.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/explain.h"
#include "proto/base/assemble.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "proto/base/work_limits.h"
#include "proto/key/request_digest.h"
#include "server/cache_look.h"
#include "server/task_label.h"

namespace kiln {
namespace {

wire::ArtifactEnvelope EnvelopeOf(const CompileTask& task,
                                  const wire::CompilePlan& plan) {
  const std::vector<std::string> tuned(plan.tuned().begin(),
                                       plan.tuned().end());
  wire::ArtifactEnvelope envelope;
  envelope.set_cache_namespace(task.request().cache_namespace());
  envelope.set_compile_key(task.key.digest.ToBytes());
  envelope.set_entry_id(
      EntryId(task.key.digest, plan.guards(), tuned).ToBytes());
  envelope.set_build(task.build.ToBytes());
  envelope.set_made_unix_ms(absl::ToUnixMillis(absl::Now()));
  return envelope;
}

}  // namespace

// The story of one job: plan, build, assemble, sign, store.
absl::StatusOr<CompiledArtifact> CompileJob::Run(Job& job) {
  const CompileTask& task = *job.task;
  const SteadyTime begun = SteadyNow();
  // The same job may have ended between the caller's look and its joining.
  CacheAnswer cached = rooms_.cache.Lookup(task.key.digest, task.query());
  if (cached.hit()) {
    ASSIGN_OR_RETURN(CompiledArtifact before, MadeBefore(std::move(cached)));
    FillEvents(task, before);
    return before;
  }

  JobPhases phases(job.begun);
  phases.Add("queue", "wait", job.begun, begun);
  ASSIGN_OR_RETURN(wire::CompilePlan plan, Plan(job, phases));
  const SteadyTime planned = SteadyNow();
  phases.Add("plan", "job", begun, planned);
  ASSIGN_OR_RETURN(BuiltUnits units, Build(job, plan));
  const SteadyTime built = SteadyNow();
  phases.Add("build", "job", planned, built);
  phases.AddBuilds(units.builds);

  rooms_.jobs.Report(job, JobStage::kStoring, 0, 0);
  const uint32_t least_driver = LeastDriver(units.objects);
  ASSIGN_OR_RETURN(
      std::string artifact,
      AssembleArtifact(plan, std::move(units.objects), task.request().target(),
                       task.key.digest, task.request_digest));
  CompiledArtifact made = {
      .artifact =
          SealArtifact(*rooms_.keys.SignerOf(task.request().cache_namespace()),
                       EnvelopeOf(task, plan), std::move(artifact)),
      .guards = plan.guards(),
      .least_driver_cuda_version = least_driver,
      .queued = Between(job.begun, begun),
      .planned = Between(begun, planned),
      .built = Between(planned, built),
      .units_built = units.built,
      .units_cached = units.cached,
  };
  phases.Add("assemble and sign", "job", built, SteadyNow());
  Store(job, made, plan, std::move(phases));
  FillEvents(task, made);
  return made;
}

absl::StatusOr<wire::CompilePlan> CompileJob::Plan(Job& job,
                                                   JobPhases& phases) {
  rooms_.jobs.Report(job, JobStage::kPlanning, 0, 0);
  wire::WorkRequest request;
  wire::PlanRequest& plan = *request.mutable_plan();
  *plan.mutable_compile() = job.task->request();
  for (const wire::TuningDecision& decision : *job.task->tuning) {
    *plan.add_tuning() = decision;
  }
  const auto work =
      rooms_.pool.Submit(std::move(request), LabelOf(*job.task, job.caller));
  ASSIGN_OR_RETURN(const wire::WorkReply* reply, work->Wait());
  if (!reply->has_plan()) {
    return absl::InternalError(
        "worker: its reply to a plan request has no plan");
  }
  rooms_.counters.Add(Count::kPlans);
  rooms_.pass_times.Add(*reply);
  phases.AddPlanning(*reply, work->times());
  RETURN_IF_ERROR(CheckPlanSize(reply->plan(), job.graph_name));
  return reply->plan();
}

absl::StatusOr<BuiltUnits> CompileJob::Build(Job& job,
                                             const wire::CompilePlan& plan) {
  return rooms_.units.BuildAll(
      plan, job.task->request().target(), LabelOf(*job.task, job.caller),
      [this, &job](int done, int total) {
        rooms_.jobs.Report(job, JobStage::kBuilding, done, total);
      });
}

// A cache that cannot store is slow, not wrong.
void CompileJob::Store(Job& job, const CompiledArtifact& made,
                       const wire::CompilePlan& plan, JobPhases phases) {
  const CompileTask& task = *job.task;
  NewEntry entry;
  entry.key = task.key;
  entry.artifact = made.artifact;
  entry.guards = made.guards;
  entry.tuned.assign(plan.tuned().begin(), plan.tuned().end());
  entry.kernels = plan.plan().kernels_size();
  entry.least_driver_cuda_version = made.least_driver_cuda_version;
  entry.build = made.planned + made.built;
  entry.phases = phases.Take();
  entry.cache_namespace = task.request().cache_namespace();
  entry.graph_name = task.graph_name;
  entry.target = TargetText(task.request().target());
  entry.graph_text = GraphLines(task.request().graph());
  const absl::Status stored = rooms_.cache.Insert(std::move(entry));
  if (stored.ok()) return;
  rooms_.counters.Add(Count::kCacheStoreFailed);
  LogWarning("cache.store_failed", {{"error", stored.ToString()}});
}

}  // namespace kiln

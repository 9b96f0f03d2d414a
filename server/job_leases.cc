#include "server/job_leases.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "server/cache_look.h"

namespace kiln {
namespace {

// A lease is extended so often in its life that it outlives a lost answer.
constexpr int kRenewals = 4;

// Jobs set aside; more are run.
constexpr size_t kMostAside = 256;

// The lease is asked for again after an eighth of the time waited: what a wait is
// too long by is a small part of it.
constexpr absl::Duration kLeastGap = absl::Milliseconds(20);
constexpr absl::Duration kMostGap = absl::Milliseconds(500);

absl::Duration GapAfter(absl::Duration waited) {
  return std::clamp(waited / 8, kLeastGap, kMostGap);
}

LeaseName NameOf(const Job& job) { return {job.task->key.digest, job.key}; }

std::string NewHolder() {
  absl::BitGen random;
  return absl::StrFormat("%016x%016x", absl::Uniform<uint64_t>(random),
                         absl::Uniform<uint64_t>(random));
}

}  // namespace

JobLeases::JobLeases(const Rooms& rooms, absl::Duration wait)
    : rooms_(rooms),
      leases_(*rooms.tier.leases()),
      wait_(wait),
      holder_(NewHolder()),
      thread_([this] { Loop(); }) {}

bool JobLeases::MayRun(const std::shared_ptr<Job>& job) {
  {
    MutexLock lock(&mu_);
    if (ending_ || passes_.contains(job->id)) return true;
  }
  const CompileTask& task = *job->task;
  // A job before it may have stored this; the job itself finds it too.
  if (rooms_.cache.Lookup(task.key.digest, task.query()).hit()) return true;
  const Taken taken = Take(job);
  if (taken == Taken::kAnothers && SetAside(job)) return false;
  if (taken != Taken::kMine) {
    rooms_.counters.Add(Count::kLeaseSkipped);
    return true;
  }
  // Its last holder may have given it back a moment ago.
  ArtifactCache::FarAnswer far = rooms_.cache.LookupFar(
      task.key.digest, task.query(), rooms_.tier.Deadline());
  if (!far.answer.hit()) return true;
  // First, for the next who ask.
  rooms_.cache.KeepNear(far.found);
  if (!EndWith(*job, std::move(far.answer), /*waited=*/false)) return true;
  Done(*job);
  return false;
}

JobLeases::Taken JobLeases::Take(const std::shared_ptr<Job>& job) {
  std::string token;
  {
    MutexLock lock(&mu_);
    token = absl::StrCat(holder_, "-", ++taken_);
  }
  const LeaseName name = NameOf(*job);
  const SteadyTime asked = SteadyNow();
  const absl::StatusOr<bool> taken =
      leases_.Take(name, token, kLife, rooms_.tier.Deadline());
  if (!taken.ok()) return Taken::kUnknown;
  if (!*taken) return Taken::kAnothers;
  rooms_.counters.Add(Count::kLeaseTaken);
  MutexLock lock(&mu_);
  passes_[job->id] = {.job = job,
                      .name = name,
                      .token = std::move(token),
                      .renew = After(asked, kLife / kRenewals),
                      .ends = After(asked, kLife)};
  changed_.Signal();
  return Taken::kMine;
}

bool JobLeases::SetAside(const std::shared_ptr<Job>& job) {
  const SteadyTime now = SteadyNow();
  // Before the thread may say that it is queued again.
  rooms_.jobs.Report(*job, JobStage::kElsewhere, 0, 0);
  {
    MutexLock lock(&mu_);
    if (ending_ || asides_.size() >= kMostAside) return false;
    asides_[job->id] = {.job = job,
                        .since = now,
                        .next = After(now, kLeastGap),
                        .ends = After(now, wait_)};
    changed_.Signal();
  }
  rooms_.counters.Add(Count::kLeaseWaited);
  LogInfo("lease.waits", {{"job", job->id},
                          {"key", job->task->key.ShortHex()},
                          {"graph", job->graph_name}});
  return true;
}

bool JobLeases::EndWith(Job& job, CacheAnswer hit, bool waited) {
  absl::StatusOr<CompiledArtifact> made = MadeBefore(std::move(hit));
  if (!made.ok()) return false;
  FillEvents(*job.task, *made);
  if (waited) rooms_.counters.Add(Count::kLeaseHitsAfterWait);
  JobOutcome outcome;
  outcome.artifact = std::make_shared<const CompiledArtifact>(*std::move(made));
  if (rooms_.jobs.Begin(job)) rooms_.jobs.Finish(job, outcome);
  return true;
}

void JobLeases::PutBack(const std::shared_ptr<Job>& job) {
  {
    MutexLock lock(&mu_);
    passes_.try_emplace(
        job->id,
        Pass{.job = job, .renew = After(SteadyNow(), kLife / kRenewals)});
  }
  rooms_.jobs.Report(*job, JobStage::kQueued, 0, 0);
  QueuePlace place = job->task->place;
  place.caller = job->caller;
  const absl::Status put = rooms_.queue.PutBack(job, place);
  if (put.ok()) return;
  if (rooms_.jobs.Begin(*job)) rooms_.jobs.Finish(*job, {.status = put});
  Done(*job);
}

void JobLeases::Done(const Job& job) {
  Pass pass;
  {
    MutexLock lock(&mu_);
    const auto found = passes_.find(job.id);
    if (found == passes_.end()) return;
    pass = std::move(found->second);
    passes_.erase(found);
  }
  if (!pass.token.empty()) GiveBack(pass.name, pass.token);
}

void JobLeases::GiveBack(const LeaseName& name, const std::string& token) {
  // What is called may outlive this, not the store.
  rooms_.tier.AfterWrites(
      [leases = &leases_, name, token](SteadyTime deadline) {
        const absl::Status given = leases->GiveBack(name, token, deadline);
        if (given.ok()) return;
        LogWarning("lease.not_given_back",
                   {{"key", name.key.ShortHex()}, {"error", given.ToString()}});
      });
}

void JobLeases::End() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  Asides left;
  {
    MutexLock lock(&mu_);
    left.swap(asides_);
  }
  for (const auto& [id, aside] : left) {
    if (const std::shared_ptr<Job> job = aside.job.lock()) PutBack(job);
  }
}

void JobLeases::Loop() {
  while (true) {
    Step step;
    {
      MutexLock lock(&mu_);
      while (!ending_) {
        step = NextStep();
        if (step.due == SteadyTime::max()) {
          changed_.Wait(&mu_);
        } else if (const absl::Duration left = TimeLeft(step.due);
                   left > absl::ZeroDuration()) {
          changed_.WaitFor(&mu_, left);
        } else {
          break;
        }
      }
      if (ending_) return;
    }
    step.is_lease ? Renew(step.id) : AskAgain(step.id);
  }
}

// Waits that are over come first, since they ask nobody; then leases, so that many
// jobs that wait for a slow store do not lose theirs.
JobLeases::Step JobLeases::NextStep() const {
  const SteadyTime now = SteadyNow();
  Step over, lease, ask;
  const auto earlier = [](Step& step, SteadyTime due, const std::string& id) {
    if (due < step.due) step = {.due = due, .id = id};
  };
  for (const auto& [id, aside] : asides_) {
    earlier(over, aside.ends, id);
    earlier(ask, aside.next, id);
  }
  for (const auto& [id, pass] : passes_) earlier(lease, pass.renew, id);
  lease.is_lease = true;
  for (const Step& step : {over, lease, ask})
    if (step.due <= now) return step;
  return std::min({over, lease, ask},
                  [](const Step& a, const Step& b) { return a.due < b.due; });
}

void JobLeases::Renew(const std::string& id) {
  Pass pass;
  {
    MutexLock lock(&mu_);
    const auto found = passes_.find(id);
    if (found == passes_.end()) return;
    found->second.renew = After(SteadyNow(), kLife / kRenewals);
    pass = found->second;
    if (pass.job.expired()) passes_.erase(found);
  }
  if (pass.token.empty()) return;
  if (pass.job.expired()) return GiveBack(pass.name, pass.token);
  const SteadyTime asked = SteadyNow();
  const absl::StatusOr<bool> extended =
      leases_.Extend(pass.name, pass.token, kLife, rooms_.tier.Deadline());
  MutexLock lock(&mu_);
  const auto found = passes_.find(id);
  if (found == passes_.end()) return;  // done meanwhile
  if (extended.ok() && *extended) {
    found->second.ends = After(asked, kLife);
  } else if (extended.ok() || found->second.ends <= SteadyNow()) {
    found->second.token.clear();
    rooms_.counters.Add(Count::kLeaseLost);
  }
}

void JobLeases::AskAgain(const std::string& id) {
  Aside aside;
  {
    MutexLock lock(&mu_);
    aside = asides_[id];
  }
  const std::shared_ptr<Job> job = aside.job.lock();
  const SteadyTime now = SteadyNow();
  const bool over = now >= aside.ends;
  const Taken taken = job == nullptr || over ? Taken::kUnknown : Take(job);
  {
    MutexLock lock(&mu_);
    if (taken == Taken::kAnothers) {
      asides_[id].next = After(SteadyNow(), GapAfter(Since(aside.since)));
      return;
    }
    asides_.erase(id);
  }
  if (job == nullptr) return;
  if (taken == Taken::kMine) return LookFor(job);
  rooms_.counters.Add(over ? Count::kLeaseWaitsEnded : Count::kLeaseSkipped);
  PutBack(job);
}

// The lease is this daemon's now: what its last holder made is there, or nothing.
void JobLeases::LookFor(const std::shared_ptr<Job>& job) {
  const CompileTask& task = *job->task;
  FarAsk ask = {.key = task.key.digest,
                .values = task.values,
                .decisions = task.tuning,
                .driver_cuda_version = task.driver_cuda_version,
                .cache_namespace = task.request().cache_namespace()};
  rooms_.lookups.Start(
      job->caller, std::move(ask), [this, job](const CacheAnswer& found) {
        if (!found.hit() || !EndWith(*job, found, /*waited=*/true))
          return PutBack(job);
        Done(*job);
      });
}

}  // namespace kiln

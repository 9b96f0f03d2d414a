#ifndef KILN_SERVER_COMPILE_FLOW_H_
#define KILN_SERVER_COMPILE_FLOW_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/artifact_cache.h"
#include "cache/ready_entry.h"
#include "cache/ready_index.h"
#include "cache/tuning_cache.h"
#include "proto/base/mutex.h"
#include "proto/compile_service.pb.h"
#include "server/access/gatekeeper.h"
#include "server/compile_task.h"
#include "server/counters.h"
#include "server/far_lookups.h"
#include "server/hit_buffers.h"
#include "server/job_table.h"
#include "server/known_lookups.h"
#include "server/waiter.h"
#include "server/worker_pool.h"

namespace kiln {

class CompileFlow;

// What a lookup in memory tried, where nothing of it serves; null: nothing.
struct MemoryMiss {
  std::shared_ptr<const ReadyIndex> index;
  std::shared_ptr<const TuningDecisions> decisions;  // that were in force then
};

// One compile call: who waits, and where the answer goes. Answered exactly once
// for as long as its caller waits.
class FlowCall : public Waiter, public std::enable_shared_from_this<FlowCall> {
 public:
  // A CompileEvent with the result, or why there is none. Later ones are dropped.
  virtual void Answer(const absl::StatusOr<SharedAnswer>& event) = 0;

  // Takes a place of the namespace's share, which the caller may enter.
  // RESOURCE_EXHAUSTED QUEUE_FULL.
  virtual absl::Status EnterNamespace(absl::string_view cache_namespace) = 0;

  // Bytes of an answer that nobody else waits for, of the caller's share, until the
  // call has ended. RESOURCE_EXHAUSTED QUEUE_FULL.
  virtual absl::Status TakeBytes(int64_t bytes) = 0;

  std::string CallerName() const final ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return caller_.identity;
  }
  void OnOutcome(JobRole role, const JobOutcome& outcome) final;

 private:
  friend class CompileFlow;
  mutable Mutex mu_;
  CompileFlow* flow_ ABSL_GUARDED_BY(mu_) = nullptr;
  Caller caller_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const CompileTask> task_ ABSL_GUARDED_BY(mu_);
};

// The walk of one request through the daemon. No thread waits in it: a call that
// finds nothing is put on a job, whose end goes on with the walk. Thread-safe.
class CompileFlow {
 public:
  // All outlive this. `far` is null where there is no far tier.
  CompileFlow(const Gatekeeper& gate, const WorkerPool& pool,
              const TuningCache& tuning, ArtifactCache& cache, FarLookups* far,
              JobTable& jobs, Counters& counters)
      : gate_(gate),
        pool_(pool),
        tuning_(tuning),
        cache_(cache),
        far_(far),
        jobs_(jobs),
        counters_(counters) {}

  using LookupDone = std::function<void(const absl::StatusOr<SharedAnswer>&)>;

  // Finds or makes the artifact for `request` of `caller`, and answers `call`: at
  // once, or when its job ends.
  //
  // Errors: those of proto/compile_service.proto.
  void Run(const Caller& caller, const wire::CompileRequest& request,
           const std::shared_ptr<FlowCall>& call);

  // The caller of `call` has gone.
  void Leave(FlowCall& call);

  // Finds the artifact of a request by the request's digest. Never compiles, and
  // never waits: `done` is called once, on this thread when the answer is near,
  // else later on a thread of FarLookups.
  //
  // `missed` is what LookupInMemory returned for the same request: that is not tried
  // again.
  //
  // INVALID_ARGUMENT BAD_OPTION: no digest of 32 bytes. PERMISSION_DENIED
  // PERMISSION: not for this caller.
  void Lookup(const Caller& caller, const wire::LookupRequest& request,
              const MemoryMiss& missed, const LookupDone& done);

  // What such a request says. INVALID_ARGUMENT BAD_OPTION as Lookup, BAD_TARGET.
  absl::StatusOr<LookupAsk> ReadLookup(
      const wire::LookupRequest& request) const;

  // Lookup in memory alone: a few microseconds, also on a thread that has no time.
  // Empty: not there, as `missed` says; Lookup looks further. PERMISSION_DENIED as
  // Lookup.
  absl::StatusOr<std::optional<ReadyHit>> LookupInMemory(const Caller& caller,
                                                         const LookupAsk& ask,
                                                         MemoryMiss& missed);

 private:
  friend class FlowCall;
  using TaskPtr = std::shared_ptr<const CompileTask>;
  using Call = std::shared_ptr<FlowCall>;

  // Each answers the call, or puts it on a job, or gives the error to answer it
  // with.
  absl::Status Begin(const Caller& caller, const wire::CompileRequest& request,
                     const Call& call);
  absl::Status Serve(TaskPtr task, const Call& call);
  // Whether it is in memory. `missed` as ArtifactCache::LookupInMemory.
  bool ServeFromMemory(const CompileTask& task, FlowCall& call,
                       std::shared_ptr<const ReadyIndex>* missed = nullptr);
  static void AnswerHit(FlowCall& call, SharedAnswer event);
  SharedAnswer ReplyOf(const CacheAnswer& answer);
  absl::Status ServeFound(TaskPtr task, CacheAnswer found, const Call& call);
  absl::Status GoOn(JobRole role, const JobOutcome& outcome, const Call& call);
  absl::Status ServeWithout(const CompileTask& task,
                            const wire::GuardSet& guards, const Call& call);
  absl::Status ServeBySizes(const CompileTask& task, const Call& call);
  absl::Status ServeRenewed(const CompileTask& task,
                            const absl::Status& replaced, const Call& call);
  const Gatekeeper& gate_;  // says who may
  const WorkerPool& pool_;  // says who compiles
  const TuningCache& tuning_;
  ArtifactCache& cache_;
  FarLookups* const far_;  // or null
  JobTable& jobs_;
  Counters& counters_;
  HitBuffers hits_;  // of those that are not in memory
};

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_FLOW_H_

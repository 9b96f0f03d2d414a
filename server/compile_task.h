#ifndef KILN_SERVER_COMPILE_TASK_H_
#define KILN_SERVER_COMPILE_TASK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/artifact_cache.h"
#include "cache/compile_key.h"
#include "cache/tuning_cache.h"
#include "proto/base/digest.h"
#include "proto/compile_service.pb.h"
#include "proto/key/request_digest.h"
#include "proto/worker.pb.h"
#include "server/job_queue.h"
#include "server/waiter.h"

namespace kiln {

// What a caller asks for, exactly: the canonical request, what names its
// artifact, and the caller's own sizes. Immutable once made: a job keeps the
// task of the caller that started it.
struct CompileTask {
  // In canonical form. Callers of one job share it.
  std::shared_ptr<const wire::CompileRequest> shared_request;
  Digest request_digest;        // by which its caller asks
  CompileKey key;               // what decides the artifact's bytes
  Digest build;                 // BuildIdentity::compiler of the key
  Digest job_key;               // tasks with equal ones share a job
  std::vector<int64_t> values;  // of the canonical symbols, in this call
  DecideBy decided_by = DecideBy::kClasses;
  // In force for the target when the task was made; not null.
  std::shared_ptr<const TuningDecisions> tuning;
  std::string toolchain;             // BuildIdentity::ToolchainFor its target
  std::string graph_name;            // for people: short and printable
  uint32_t driver_cuda_version = 0;  // the caller's, as CompileRequest's
  QueuePlace place;                  // of its job, if this begins it

  const wire::CompileRequest& request() const { return *shared_request; }
  EntryQuery query() const {
    return {values, *tuning, driver_cuda_version, request().cache_namespace()};
  }
  int refusals = 0;  // artifacts whose guards did not hold for this caller
  int renewals =
      0;  // times that its compilers were replaced before it was done
};

// What a job makes, with what it cost.
struct CompiledArtifact {
  wire::SignedArtifact artifact;
  wire::GuardSet guards;
  uint32_t least_driver_cuda_version = 0;  // as Artifact's
  bool from_cache = false;  // another job had stored it meanwhile
  absl::Duration queued;
  absl::Duration planned;
  absl::Duration built;
  int units_built = 0;
  int units_cached = 0;
  // CompileEvents with the result for the caller who began the job, and for those
  // who joined it.
  SharedBytes leader_event;
  SharedBytes joined_event;
};

// Whose it is, and which: for the audit.
std::string SubjectOf(const CompileTask& task);

// `task` with what it has in common with `other`, the task of the job that both
// wait for (job_key is equal): ten thousand callers hold one graph.
std::shared_ptr<const CompileTask> SharedWith(const CompileTask& task,
                                              const CompileTask& other);

// The task for a request. Errors: those of CanonicalizeRequest.
absl::StatusOr<std::shared_ptr<const CompileTask>> MakeTask(
    const wire::CompileRequest& request, const BuildIdentity& build,
    const TuningCache& tuning, DecideBy decide_by = DecideBy::kClasses);

// The same, by the caller's sizes and with the guards of `artifact` that they
// break forbidden: what is made for it relies on none of them.
//
// FAILED_PRECONDITION GUARD_FAILED after kMaxRefusals: an artifact by a caller's
// sizes fits them, so only a compiler that is wrong gets there.
inline constexpr int kMaxRefusals = 2;
absl::StatusOr<std::shared_ptr<const CompileTask>> TaskWithout(
    const CompileTask& task, const wire::GuardSet& guards,
    const BuildIdentity& build, const TuningCache& tuning);

// Whether the compiler may have refused the sizes' classes and not the graph:
// s0 + s1 == s2 holds for 4, 5, 9 and not for their classes 4, 8, 16. False when
// the task was planned by sizes, or the sizes are their own classes.
bool ClassesMayBeAtFault(const absl::Status& refusal, const CompileTask& task);

// The same task, planned by the caller's sizes.
absl::StatusOr<std::shared_ptr<const CompileTask>> TaskBySizes(
    const CompileTask& task, const BuildIdentity& build,
    const TuningCache& tuning);

// The same task for `build`, the compilers there are now: a job for those before
// them can't be done any more. `replaced` is what that job ended with; after
// kMaxRenewals it is given back.
inline constexpr int kMaxRenewals = 2;
absl::StatusOr<std::shared_ptr<const CompileTask>> TaskRenewed(
    const CompileTask& task, const absl::Status& replaced,
    const BuildIdentity& build, const TuningCache& tuning);

}  // namespace kiln

#endif  // KILN_SERVER_COMPILE_TASK_H_

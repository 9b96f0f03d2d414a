#ifndef KILN_SERVER_UNIT_BUILDER_H_
#define KILN_SERVER_UNIT_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "cache/unit_cache.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/counters.h"
#include "server/work_queue.h"
#include "server/worker_pool.h"

namespace kiln {

// A unit that a worker built while the caller waited.
struct UnitBuild {
  std::string kernels;  // "kiln_poi_fused_add_5f0c and 3 more"
  WorkTimes times;
};

struct BuiltUnits {
  std::vector<wire::ObjectCode> objects;  // in the order of the units
  int built = 0;                          // by a worker, for this caller
  int cached = 0;                         // found, or built for another
  std::vector<UnitBuild> builds;          // also those for another
};

// Gets the object code of translation units: from the unit cache, from a build
// that is under way for another job, or from a worker; all of a plan's missing
// units are with the pool at once, and no worker waits for another.
//
// Thread-safe.
class UnitBuilder {
 public:
  // All outlive this.
  UnitBuilder(WorkerPool& pool, UnitCache& cache, Counters& counters)
      : pool_(pool), cache_(cache), counters_(counters) {}

  // Blocks until every unit of `compiled` is there or one can't be had.
  // The label names the job to people; its toolchain is part of the units'
  // keys. `progress` is called with the kernels done, out of all, on this thread.
  //
  // Errors: those of PendingWork::Wait, for the first unit that failed. Where a build
  // of another job ended workers, or one of another namespace failed at all, the unit
  // is built anew for this job: the error is of its own build.
  absl::StatusOr<BuiltUnits> BuildAll(
      const wire::CompilePlan& compiled, const wire::Target& target,
      const WorkLabel& label,
      absl::FunctionRef<void(int done, int total)> progress);

 private:
  // One unit on its way to this caller.
  struct Wanted {
    Digest key;
    std::shared_ptr<PendingWork> work;  // null: the object is here
    bool ours = false;                  // we asked the pool
    SteadyTime asked;                   // or joined: when
    wire::ObjectCode object;
  };

  enum class Whose { kAnybodys, kOurs };
  // From the cache, or from a build: whose it may be.
  Wanted Ask(const wire::TranslationUnit& unit, const Digest& key,
             const wire::Target& target, const WorkLabel& label, Whose whose)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the build that is under way for it, if there is one.
  bool Join(Wanted& wanted, const WorkLabel& label)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Fetch(const wire::TranslationUnit& unit, Wanted& wanted)
      ABSL_LOCKS_EXCLUDED(mu_);
  // True until whoever asked the pool has stored the object. Until then a caller
  // that joined stores it too: its answer must not outlive the unit when the
  // daemon is killed.
  bool IsUnderWay(const Wanted& wanted) const ABSL_LOCKS_EXCLUDED(mu_);
  bool IsListed(const Wanted& wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Store(const Wanted& wanted);

  WorkerPool& pool_;
  UnitCache& cache_;
  Counters& counters_;

  mutable Mutex mu_;
  // Builds that others may join, at most one of a unit; whoever asked the pool takes
  // its build out again.
  std::map<Digest, std::shared_ptr<PendingWork>> under_way_
      ABSL_GUARDED_BY(mu_);
  int64_t ended_ ABSL_GUARDED_BY(mu_) = 0;  // builds taken out again
};

}  // namespace kiln

#endif  // KILN_SERVER_UNIT_BUILDER_H_

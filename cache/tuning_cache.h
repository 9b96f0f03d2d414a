#ifndef KILN_CACHE_TUNING_CACHE_H_
#define KILN_CACHE_TUNING_CACHE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/blob_store.h"
#include "proto/artifact.pb.h"
#include "proto/base/mutex.h"
#include "proto/worker.pb.h"

namespace kiln {

// By key, ascending; each key once. Without the times: those are for people and
// must not reach an artifact.
using TuningDecisions = std::vector<wire::TuningDecision>;

// The winners of measurements, one for each target and key. A key is a word of
// the compiler's for kernels that one decision is for; the cache reads nothing
// into it. Few and small: all are kept in memory.
//
// Thread-safe.
class TuningCache {
 public:
  // `store` outlives the cache.
  explicit TuningCache(BlobStore& store) : store_(store) {}

  // Reads all decisions. Unsound ones and those of another
  // version are dropped. UNAVAILABLE STORAGE.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);

  // Those in force for `target`, as PlanRequest.tuning wants them. Never null;
  // never changes: each Insert makes another.
  std::shared_ptr<const TuningDecisions> DecisionsFor(
      const wire::Target& target) const ABSL_LOCKS_EXCLUDED(mu_);

  // Replaces. In force for the next plan even when it cannot be stored.
  absl::Status Insert(const wire::Target& target,
                      const wire::TuningDecision& decision)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  BlobStore& store_;
  mutable Mutex mu_;
  // By serialized target, without fields that nobody knows.
  std::map<std::string, std::shared_ptr<const TuningDecisions>> decisions_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_TUNING_CACHE_H_

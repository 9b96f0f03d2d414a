#ifndef KILN_CACHE_TUNING_CACHE_H_
#define KILN_CACHE_TUNING_CACHE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/blob_store.h"
#include "proto/artifact.pb.h"
#include "proto/base/mutex.h"
#include "proto/worker.pb.h"

namespace kiln {

// The winners of tuning runs, one for each target and key (op, shape class,
// device class, policy). Few and small: all are kept in memory.
//
// Thread-safe.
class TuningCache {
 public:
  // `store` outlives the cache.
  explicit TuningCache(BlobStore& store) : store_(store) {}

  // Reads all decisions. Unsound ones are dropped. UNAVAILABLE STORAGE.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);

  // Those for `target`, sorted by key: as PlanRequest.tuning wants them.
  std::vector<wire::TuningDecision> DecisionsFor(
      const wire::Target& target) const ABSL_LOCKS_EXCLUDED(mu_);

  // Replaces. In force for the next plan even when it cannot be stored.
  absl::Status Insert(const wire::Target& target,
                      const wire::TuningDecision& decision)
      ABSL_LOCKS_EXCLUDED(mu_);

  int64_t size() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  BlobStore& store_;
  mutable Mutex mu_;
  // By serialized target and key.
  std::map<std::pair<std::string, std::string>, wire::TuningDecision> decisions_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_TUNING_CACHE_H_

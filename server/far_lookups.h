#ifndef KILN_SERVER_FAR_LOOKUPS_H_
#define KILN_SERVER_FAR_LOOKUPS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "cache/artifact_cache.h"
#include "cache/tuning_cache.h"
#include "proto/base/digest.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/fair_share.h"
#include "server/turns.h"

namespace kiln {

// What a lookup asks, with all that it needs while it waits.
struct FarAsk {
  Digest key;
  std::vector<int64_t> values;
  std::shared_ptr<const TuningDecisions> decisions;  // not null
  uint32_t driver_cuda_version = 0;
  std::string cache_namespace;

  EntryQuery query() const {
    return {values, *decisions, driver_cuda_version, cache_namespace};
  }
};

// Lookups in the far tier, which wait for a network: on a few threads of their
// own, so that no caller's thread does. Callers take turns, and of the looks there
// may be each has a share (server/fair_share). Callers who ask the same at once
// share one look, which comes with the first turn that one of them has.
// Thread-safe.
class FarLookups {
 public:
  // Given to every caller of one look.
  using Done = std::function<void(const CacheAnswer&)>;

  // `cache` outlives this. A look ends `budget` after its first caller came, one
  // that waits for a thread too.
  FarLookups(ArtifactCache& cache, absl::Duration budget);
  FarLookups(const FarLookups&) = delete;
  FarLookups& operator=(const FarLookups&) = delete;
  // Answers everybody first.
  ~FarLookups();

  // Different looks at once, of all callers.
  static constexpr int64_t kMostLooks = 4096;

  // Calls `done` once with a hit or a miss: on one of the threads, or at once
  // beyond the share of `caller`.
  void Start(const std::string& caller, FarAsk ask, Done done)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Look {
    Digest id;
    FarAsk ask;
    SteadyTime deadline;
    bool begun = false;
    std::vector<Done> waiters;
    // Whose turns it waits for.
    std::map<std::string, FairShare::Part> callers;
  };

  // Lets the look wait for a turn of this caller too; false beyond its share.
  bool Queue(const std::string& caller, const std::shared_ptr<Look>& look)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of the caller whose turn it is; null when another's turn was before.
  std::shared_ptr<Look> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Loop() ABSL_LOCKS_EXCLUDED(mu_);
  void Serve(Look& look) ABSL_LOCKS_EXCLUDED(mu_);
  // All who have come by now; the last time the look ends.
  void Answer(Look& look, const CacheAnswer& answer, bool last)
      ABSL_LOCKS_EXCLUDED(mu_);

  ArtifactCache& cache_;
  const absl::Duration budget_;
  FairShare shares_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  Turns<std::deque<std::shared_ptr<Look>>> queued_
      ABSL_GUARDED_BY(mu_);  // by caller
  // Those that wait and those under way.
  std::map<Digest, std::shared_ptr<Look>> looks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace kiln

#endif  // KILN_SERVER_FAR_LOOKUPS_H_

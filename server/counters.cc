#include "server/counters.h"

#include <algorithm>

namespace kiln {

absl::string_view CountName(Count count) {
  switch (count) {
    case Count::kCacheBroken:
      return "cache.lookups_broken";
    case Count::kCacheGuardMisses:
      return "cache.guard_misses";
    case Count::kCacheHits:
      return "cache.hits";
    case Count::kCacheMisses:
      return "cache.misses";
    case Count::kCacheStoreFailed:
      return "cache.store_failed";
    case Count::kCallsCompile:
      return "calls.compile";
    case Count::kCallsLookup:
      return "calls.lookup";
    case Count::kCallsRefused:
      return "calls.refused";
    case Count::kCallsUnread:
      return "calls.unread";
    case Count::kJobsCancelled:
      return "jobs.cancelled";
    case Count::kJobsDone:
      return "jobs.done";
    case Count::kJobsFailed:
      return "jobs.failed";
    case Count::kJobsJoined:
      return "jobs.joined";
    case Count::kJobsPoisoned:
      return "jobs.poisoned";
    case Count::kJobsStarted:
      return "jobs.started";
    case Count::kPeersAccepted:
      return "peers.accepted";
    case Count::kPeersRefused:
      return "peers.refused";
    case Count::kPlans:
      return "plans";
    case Count::kQueueFull:
      return "queue.full";
    case Count::kTuned:
      return "tuned";
    case Count::kUnitsBuilt:
      return "units.built";
    case Count::kUnitsCached:
      return "units.cached";
    case Count::kUnitsJoined:
      return "units.joined";
    case Count::kWorkersDied:
      return "workers.died";
    case Count::kWorkersHung:
      return "workers.hung";
    case Count::kWorkersRetried:
      return "workers.retried";
    case Count::kWorkersStarted:
      return "workers.started";
  }
  return "unknown";
}

std::vector<std::pair<std::string, int64_t>> Counters::Snapshot() const {
  std::vector<std::pair<std::string, int64_t>> all;
  for (int i = 0; i < kCountKinds; ++i) {
    const Count count = static_cast<Count>(i);
    all.emplace_back(std::string(CountName(count)), Get(count));
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace kiln

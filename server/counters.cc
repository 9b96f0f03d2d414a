#include "server/counters.h"

#include <algorithm>
#include <iterator>

namespace kiln {

namespace {

struct CountRow {
  Count count;
  absl::string_view name;
};
// In the order of the enum.
constexpr CountRow kRows[] = {
    {Count::kCacheBroken, "cache.lookups_broken"},
    {Count::kCacheGuardMisses, "cache.guard_misses"},
    {Count::kCacheHits, "cache.hits"},
    {Count::kCacheMisses, "cache.misses"},
    {Count::kCacheStoreFailed, "cache.store_failed"},
    {Count::kCallersRefused, "callers.refused"},
    {Count::kCallsCompile, "calls.compile"},
    {Count::kCallsLookup, "calls.lookup"},
    {Count::kCallsRecords, "calls.records"},
    {Count::kCallsRefused, "calls.refused"},
    {Count::kCallsUnread, "calls.unread"},
    {Count::kJobsCancelled, "jobs.cancelled"},
    {Count::kJobsDone, "jobs.done"},
    {Count::kJobsFailed, "jobs.failed"},
    {Count::kJobsJoined, "jobs.joined"},
    {Count::kJobsPoisoned, "jobs.poisoned"},
    {Count::kJobsStarted, "jobs.started"},
    {Count::kLeaseHitsAfterWait, "lease.hits_after_wait"},
    {Count::kLeaseLost, "lease.lost"},
    {Count::kLeaseSkipped, "lease.skipped"},
    {Count::kLeaseTaken, "lease.taken"},
    {Count::kLeaseWaited, "lease.waited"},
    {Count::kLeaseWaitsEnded, "lease.waits_ended"},
    {Count::kMemoryReturned, "memory.returned_bytes"},
    {Count::kPeersAccepted, "peers.accepted"},
    {Count::kPeersRefused, "peers.refused"},
    {Count::kPeersTooMany, "peers.too_many"},
    {Count::kPeersTooOften, "peers.too_often"},
    {Count::kPlans, "plans"},
    {Count::kQueueFull, "queue.full"},
    {Count::kRecordsGiven, "records.given"},
    {Count::kRecordsRefused, "records.refused"},
    {Count::kRecordsTaken, "records.taken"},
    {Count::kTuned, "tuned"},
    {Count::kUnitsBuilt, "units.built"},
    {Count::kUnitsCached, "units.cached"},
    {Count::kUnitsJoined, "units.joined"},
    {Count::kWorkersDied, "workers.died"},
    {Count::kWorkersHung, "workers.hung"},
    {Count::kWorkersRetried, "workers.retried"},
    {Count::kWorkersStarted, "workers.started"},
};

constexpr bool RowsAreInOrder() {
  for (int i = 0; i < kCountKinds; ++i) {
    if (kRows[i].count != static_cast<Count>(i)) return false;
  }
  return std::size(kRows) == kCountKinds;
}
static_assert(RowsAreInOrder());

}  // namespace

absl::string_view CountName(Count count) {
  return kRows[static_cast<int>(count)].name;
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

#ifndef KILN_SERVER_COUNTERS_H_
#define KILN_SERVER_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

// What the daemon counts since its start. Dashboards and `compilectl stats`
// hang on the names in counters.cc: they never change.
enum class Count {
  kCacheBroken,         // lookups that met an entry which was not sound
  kCacheGuardMisses,    // of Compile: entries under the key, no guards hold
  kCacheHits,           // of Lookup and of Compile
  kCacheMisses,         // of Compile: no entry under the key
  kCacheStoreFailed,    // an artifact was made and could not be stored
  kCallersRefused,      // calls without a good token or certificate, or a role
  kCallsCompile,        // Compile calls begun
  kCallsLookup,         // Lookup calls begun
  kCallsRecords,        // calls of other daemons for records
  kCallsRefused,        // calls that ended with INVALID_ARGUMENT or the like
  kCallsUnread,         // calls cancelled since their caller did not read
  kJobsCancelled,       // left the queue since nobody waited any more
  kJobsDone,            // ended with an artifact
  kJobsFailed,          // ended with an error
  kJobsJoined,          // callers that found their job under way
  kJobsPoisoned,        // callers refused since their job had ended two workers
  kJobsStarted,         // begun by a runner, or ended with a far entry
  kLeaseHitsAfterWait,  // jobs that waited, and got what another daemon made
  kLeaseLost,     // leases that ran out or were another's while their job ran
  kLeaseSkipped,  // jobs run without a lease: the far store failed, or too
                  // many wait
  kLeaseTaken,    // jobs that had a lease
  kLeaseWaited,   // jobs that found the lease taken, and waited
  kLeaseWaitsEnded,  // those that ran after all, since the wait took too long
  kMemoryReturned,   // bytes that were free and went back to the machine
  kPeersAccepted,    // connections
  kPeersRefused,     // connections refused, or ended since they reset calls
  kPeersTooMany,     // connections over a limit
  kPeersTooOften,    // of an address with too many, or of who reset calls
  kPlans,            // plan requests answered by a worker
  kQueueFull,        // callers refused since the queue was full
  kRecordsGiven,     // records that other daemons read
  kRecordsRefused,   // records put by other daemons that were not sound
  kRecordsTaken,     // records put by other daemons
  kTuned,            // tuning decisions measured
  kUnitsBuilt,       // translation units built by a worker
  kUnitsCached,      // found in the unit cache
  kUnitsJoined,      // being built for another job already
  kWorkersDied,      // processes that ended without being asked to
  kWorkersHung,      // processes killed at their wall deadline
  kWorkersRetried,   // requests given to a second worker
  kWorkersStarted,   // processes started, the first ones too
};
inline constexpr int kCountKinds = static_cast<int>(Count::kWorkersStarted) + 1;

// "cache.hits". The name on the wire.
absl::string_view CountName(Count count);

// Thread-safe.
class Counters {
 public:
  void Add(Count count, int64_t n = 1) {
    values_[static_cast<int>(count)].fetch_add(n, std::memory_order_relaxed);
  }
  int64_t Get(Count count) const {
    return values_[static_cast<int>(count)].load(std::memory_order_relaxed);
  }

  // Every counter with its name, sorted by name.
  std::vector<std::pair<std::string, int64_t>> Snapshot() const;

 private:
  std::array<std::atomic<int64_t>, kCountKinds> values_ = {};
};

}  // namespace kiln

#endif  // KILN_SERVER_COUNTERS_H_

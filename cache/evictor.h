#ifndef KILN_CACHE_EVICTOR_H_
#define KILN_CACHE_EVICTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "cache/ledger.h"
#include "cache/storage_budgets.h"
#include "proto/base/digest.h"

namespace kiln {

// Brings what is stored within its budgets, in the order of eviction_policy.h.
//
// Looks at some thousand records at a time: a cache of millions is never copied or
// sorted as a whole, and each look evicts only the last of those it saw. Small
// caches are seen whole. Once over a budget it goes on to nineteen twentieths of it,
// so that not every write brings a round.
//
// For one thread.
class Evictor {
 public:
  // `evict` takes a record away, with its index; the ledger forgets it by that.
  // All outlive the evictor.
  Evictor(Ledger& ledger, StorageBudgets budgets,
          std::function<absl::Status(const Digest&)> evict)
      : ledger_(ledger),
        budgets_(std::move(budgets)),
        evict_(std::move(evict)) {}

  // One round; `more_bytes` are to go beside what is over the budgets. Ends early
  // when `stop` is set, or with the first error of `evict`.
  absl::Status Round(int64_t more_bytes, const std::atomic<bool>& stop);

  int64_t evicted_entries() const { return evicted_entries_; }
  int64_t evicted_units() const { return evicted_units_; }

 private:
  absl::Status EvictUnused(const std::atomic<bool>& stop);
  absl::Status TakeAway(Excess excess, const Ledger::Filter& filter,
                        const std::atomic<bool>& stop);
  absl::Status Evict(const Evictable& victim);

  Ledger& ledger_;
  const StorageBudgets budgets_;
  const std::function<absl::Status(const Digest&)> evict_;
  int next_shard_ = 0;  // where the next look begins
  std::atomic<int64_t> evicted_entries_{0}, evicted_units_{0};
};

}  // namespace kiln

#endif  // KILN_CACHE_EVICTOR_H_

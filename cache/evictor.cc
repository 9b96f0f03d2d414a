#include "cache/evictor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/status.h"

namespace kiln {
namespace {

// Records that one look sees at least, where there are so many; and the part of
// them that it may evict when there are more.
constexpr size_t kSampleRows = 16384;
constexpr size_t kSampleVictims = kSampleRows / 16;

// What is to go of `found` where `budget` is the bound; 0: nothing.
int64_t Over(int64_t found, int64_t budget) {
  if (budget <= 0 || found <= budget) return 0;
  return found - (budget - budget / 20);
}

}  // namespace

absl::Status Evictor::Evict(const Evictable& victim) {
  const LedgerTotals before = ledger_.totals();
  RETURN_IF_ERROR(evict_(victim.key));
  const LedgerTotals after = ledger_.totals();
  ++(after.units < before.units ? evicted_units_ : evicted_entries_);
  return absl::OkStatus();
}

absl::Status Evictor::TakeAway(Excess excess, const Ledger::Filter& filter,
                               const std::atomic<bool>& stop) {
  while ((excess.bytes > 0 || excess.count > 0) && !stop) {
    std::vector<Evictable> sample;
    int shards = 0;
    for (; shards < Ledger::kShards && sample.size() < kSampleRows; ++shards) {
      for (Evictable& row : ledger_.ShardSample(next_shard_, filter))
        sample.push_back(std::move(row));
      next_shard_ = (next_shard_ + 1) % Ledger::kShards;
    }
    if (sample.empty()) return absl::OkStatus();  // the rest is pinned
    const bool all = shards == Ledger::kShards;
    std::vector<Evictable> victims = ChooseVictims(std::move(sample), excess);
    if (!all && victims.size() > kSampleVictims) victims.resize(kSampleVictims);
    for (const Evictable& victim : victims) {
      if (stop) return absl::OkStatus();
      RETURN_IF_ERROR(Evict(victim));
      excess.bytes -= victim.bytes;
      --excess.count;
    }
    if (all) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Evictor::EvictUnused(const std::atomic<bool>& stop) {
  if (budgets_.unused <= absl::ZeroDuration()) return absl::OkStatus();
  for (int shard = 0; shard < Ledger::kShards; ++shard) {
    for (const Evictable& victim :
         ledger_.ShardSample(shard, {.unused = budgets_.unused})) {
      if (stop) return absl::OkStatus();
      RETURN_IF_ERROR(Evict(victim));
    }
  }
  return absl::OkStatus();
}

absl::Status Evictor::Round(int64_t more_bytes, const std::atomic<bool>& stop) {
  RETURN_IF_ERROR(EvictUnused(stop));
  if (!budgets_.namespaces.empty()) {
    for (const auto& [name, bytes] : ledger_.BytesOfNamespaces()) {
      RETURN_IF_ERROR(
          TakeAway({.bytes = Over(bytes, budgets_.BytesOf(name))},
                   {.entries_alone = true, .cache_namespace = &name}, stop));
    }
  }
  RETURN_IF_ERROR(
      TakeAway({.count = Over(ledger_.totals().entries, budgets_.entries)},
               {.entries_alone = true}, stop));
  const int64_t bytes =
      std::max(Over(ledger_.totals().bytes(), budgets_.bytes), more_bytes);
  return TakeAway({.bytes = bytes}, {}, stop);
}

}  // namespace kiln

#include "cache/upkeep.h"

#include <algorithm>

#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Files are rewritten when what was deleted from them is a fifth of what is stored;
// less, and a little database, is left to RocksDB.
constexpr int64_t kGarbagePart = 5;
constexpr int64_t kLittleBytes = int64_t{64} << 20;

// Is it time again? Then `last` is now.
bool IsDue(SteadyTime now, absl::Duration every, SteadyTime& last) {
  if (last != SteadyTime::min() && Between(last, now) < every) return false;
  last = now;
  return true;
}

}  // namespace

void Upkeep::Round(const std::atomic<bool>& stop) {
  MutexLock lock(&mu_);
  const SteadyTime now = rooms_.clock.Steady();
  if (rooms_.db != nullptr) LookAfterDisk(now, stop);
  if (!loaded_) Load(stop);
  if (!loaded_ || stop) return;
  KeepWithinBudgets(stop);
  if (IsDue(now, kWriteUsesEvery, uses_written_)) {
    IgnoreBecause(rooms_.ledger.WriteUses(),
                  "a lost use makes a record look older, no more");
  }
}

void Upkeep::LookAfterDisk(SteadyTime now, const std::atomic<bool>& stop) {
  RocksDb& db = *rooms_.db;
  if (!looked_at_) db.LookAtTables();
  looked_at_ = true;
  if (!db.writable() && IsDue(now, kRecoverEvery, recovered_)) db.Recover();
  if (!db.damaged() || walks_ > 0 || !IsDue(now, kMendEvery, mended_)) return;
  const absl::Status mended = db.Mend(stop);
  if (!mended.ok())
    LogWarning("cache.mend_failed", {{"error", mended.ToString()}});
}

absl::Status Upkeep::WithoutMending(absl::FunctionRef<absl::Status()> walk) {
  ++walks_;
  absl::Status ended = walk();
  --walks_;
  return ended;
}

void Upkeep::Load(const std::atomic<bool>& stop) {
  const absl::Status loaded = rooms_.load(stop);
  if (absl::IsCancelled(loaded)) return;
  if (!loaded.ok())
    LogWarning("cache.load_failed", {{"error", loaded.ToString()}});
  for (BoundedBlobStore* store : rooms_.bounded) {
    if (stop) return;
    IgnoreBecause(store->Recount(), "what is put from now on is counted");
  }
  loaded_ = true;
}

absl::Status Upkeep::Compact(const std::atomic<bool>& stop) {
  MutexLock lock(&mu_);
  return rooms_.db == nullptr ? absl::OkStatus() : Rewrite(stop);
}

// What is left then is no garbage, whatever the ledger says.
absl::Status Upkeep::Rewrite(const std::atomic<bool>& stop) {
  absl::Status compacted = rooms_.db->Compact(stop);
  if (ReasonOf(compacted) == ErrorReason::kArtifactCorrupt)
    compacted = rooms_.db->Mend(stop);
  if (absl::IsCancelled(compacted)) return compacted;
  beside_ = std::max<int64_t>(
      rooms_.db->PhysicalBytes() - rooms_.ledger.totals().bytes(), 0);
  return compacted;
}

void Upkeep::KeepWithinBudgets(const std::atomic<bool>& stop) {
  int64_t more = 0;
  if (rooms_.db != nullptr) {
    if (!rooms_.db->writable()) return;
    const int64_t physical = rooms_.db->PhysicalBytes();
    const int64_t live = rooms_.ledger.totals().bytes() + beside_;
    if (physical > rooms_.budget_bytes &&
        physical - live > std::max(live / kGarbagePart, kLittleBytes)) {
      const absl::Status rewritten = Rewrite(stop);
      if (!rewritten.ok())
        LogWarning("cache.compact_failed", {{"error", rewritten.ToString()}});
    }
    more = rooms_.ledger.totals().bytes() + beside_ - rooms_.budget_bytes;
  }
  const absl::Status kept = rooms_.evictor.Round(more, stop);
  if (!kept.ok())
    LogWarning("cache.evict_failed", {{"error", kept.ToString()}});
}

}  // namespace kiln

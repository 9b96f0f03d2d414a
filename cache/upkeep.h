#ifndef KILN_CACHE_UPKEEP_H_
#define KILN_CACHE_UPKEEP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cache/bounded_blob_store.h"
#include "cache/evictor.h"
#include "cache/ledger.h"
#include "cache/rocksdb_blob_store.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"

namespace kiln {

// What a cache does in the background, round after round, so that no hit and no
// start waits for it: learns what is stored, evicts what is over the budgets,
// rewrites files that are full of what was deleted or damaged, writes the uses that were noted,
// and tries a disk again that failed.
//
// Thread-safe: one round at a time.
class Upkeep {
 public:
  // How often uses are written: so much older a record may look after a crash.
  static constexpr absl::Duration kWriteUsesEvery = absl::Minutes(10);
  // How often a database that cannot be written is tried again.
  static constexpr absl::Duration kRecoverEvery = absl::Seconds(5);

  // How often mending a damaged database is tried.
  static constexpr absl::Duration kMendEvery = absl::Minutes(10);

  struct Rooms {
    Ledger& ledger;
    Evictor& evictor;
    RocksDb* db;  // null: all is in memory
    std::vector<BoundedBlobStore*> bounded;
    // As LoadLedger.
    std::function<absl::Status(const std::atomic<bool>& stop)> load;
    const Clock& clock;
    int64_t budget_bytes = 0;
  };

  explicit Upkeep(Rooms rooms) : rooms_(std::move(rooms)) {}

  // One round. Ends early when `stop` is set.
  void Round(const std::atomic<bool>& stop) ABSL_LOCKS_EXCLUDED(mu_);

  // Rewrites the files of the database, without the damage that is met. As
  // RocksDb::Compact and Mend; nothing to do for a cache in memory.
  absl::Status Compact(const std::atomic<bool>& stop) ABSL_LOCKS_EXCLUDED(mu_);

  // Runs it, and no round begins to mend the database meanwhile: that refuses writes.
  absl::Status WithoutMending(absl::FunctionRef<absl::Status()> walk);

  // Whether the ledger knows all that is stored.
  bool loaded() const { return loaded_; }

 private:
  void LookAfterDisk(SteadyTime now, const std::atomic<bool>& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Load(const std::atomic<bool>& stop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Rewrite(const std::atomic<bool>& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void KeepWithinBudgets(const std::atomic<bool>& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Rooms rooms_;
  std::atomic<bool> loaded_{false};
  std::atomic<int> walks_{0};  // that run without mending
  Mutex mu_;
  // On disk beside what the ledger counts, as the last compaction showed.
  int64_t beside_ ABSL_GUARDED_BY(mu_) = 0;
  SteadyTime uses_written_ ABSL_GUARDED_BY(mu_) = SteadyTime::min();
  SteadyTime recovered_ ABSL_GUARDED_BY(mu_) = SteadyTime::min();
  bool looked_at_ ABSL_GUARDED_BY(mu_) = false;
  SteadyTime mended_ ABSL_GUARDED_BY(mu_) = SteadyTime::min();
};

}  // namespace kiln

#endif  // KILN_CACHE_UPKEEP_H_

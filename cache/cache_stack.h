#ifndef KILN_CACHE_CACHE_STACK_H_
#define KILN_CACHE_CACHE_STACK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/artifact_cache.h"
#include "cache/evictor.h"
#include "cache/far/far_tier.h"
#include "cache/near_records.h"
#include "cache/scrub.h"
#include "cache/tuning_cache.h"
#include "cache/unit_cache.h"
#include "proto/base/clock.h"
#include "proto/base/key_ring.h"

namespace rocksdb {
class Env;
}

namespace kiln {

struct CacheOptions {
  // The database's folder; made when absent (mode 0700). Empty: memory only,
  // nothing outlives the process.
  std::string folder;
  // What may be kept on disk, units included. Too low: things are compiled twice.
  // Too high: the disk fills.
  StorageBudgets budgets;
  // As in RocksDbOptions: what is left free on the disk, how often it is told to
  // keep what was written, and injected faults.
  int64_t min_free_bytes = int64_t{64} << 20;
  absl::Duration sync_every = absl::Seconds(1);
  rocksdb::Env* env = nullptr;
  // Bytes of artifacts held ready in memory.
  int64_t memory_bytes = int64_t{64} << 20;
  // How often the upkeep has its round, on a thread of its own; zero: when Tidy is
  // called, and then alone.
  absl::Duration tidy_every = absl::Seconds(1);
  // Told of each record near that is not believed, by its name, on the thread that met
  // it. May be empty.
  VerifiedBlobStore::OnRefused on_refused;
  // A store that other machines share; null: none.
  std::shared_ptr<FarStore> far_store;
  FarTier::Options far;
};

// All stores of one daemon, opened and joined:
//
//   entries   -> tiered(lru, verified(forgetting(metered(rocksdb))))
//   indexes   -> tiered(lru, verified(rocksdb))
//   graphs    -> verified(bounded(rocksdb))
//   units     -> verified(forgetting(metered(rocksdb)))
//   tuning    -> verified(rocksdb)
//
// and behind entries and units, where there is one, the far tier. A ledger knows all
// entries and units, and an upkeep in the background evicts by it.
//
// Opening reads nothing for each entry. Broken records of all of them go to one
// quarantine, which is bounded too. Thread-safe.
class CacheStack {
 public:
  // `keys` seal records, and say whose are believed. `clock` outlives the stack.
  //
  // A database that cannot be opened, as its files are damaged, is put aside: its folder is renamed to
  // FOLDER.broken-N, where it stays, and the stack starts empty. A warning names
  // both folders, and "cache.put_aside" is 1.
  //
  // With a full or failing disk it opens, serves what is there, and stores nothing
  // until the disk takes it again.
  //
  // Errors:
  //   UNAVAILABLE STORAGE  the folder cannot be made, or neither written nor read,
  //                        or another process holds its LOCK; or a damaged one
  //                        cannot be renamed, or eight have been
  static absl::StatusOr<std::unique_ptr<CacheStack>> Open(
      const CacheOptions& options, std::shared_ptr<const KeyRing> keys,
      const Clock& clock);

  ~CacheStack();

  ArtifactCache& artifacts();
  UnitCache& units();
  TuningCache& tuning();
  FarTier* far();  // or null
  // What is near, for other daemons.
  NearRecords& near_records();

  // Reads and verifies all that is stored (scrub.h).
  absl::Status Scrub(bool mend, const std::atomic<bool>& stop,
                     const std::function<void(const ScrubReport&)>& tell);
  // Rewrites the files without what was deleted or damaged, as Upkeep::Compact.
  absl::Status Compact(const std::atomic<bool>& stop);
  // On disk; 0 for a cache in memory.
  int64_t PhysicalBytes() const;
  // Entries, indexes and units, about.
  int64_t records() const;

  // One round of the upkeep, here and now.
  void Tidy();
  // Whether writes are taken: not while the disk is full or failing.
  bool writable() const;

  // "cache.artifacts.bytes", "cache.broken", ..., sorted by name.
  std::vector<std::pair<std::string, int64_t>> Counters() const;

 private:
  struct Layers;
  explicit CacheStack(std::unique_ptr<Layers> layers);
  // ARTIFACT_CORRUPT when the database is damaged; it is closed again then.
  static absl::StatusOr<std::unique_ptr<CacheStack>> OpenSound(
      const CacheOptions& options, const std::shared_ptr<const KeyRing>& keys,
      const Clock& clock);

  const std::unique_ptr<Layers> layers_;
  int64_t put_aside_ = 0;  // databases, at the start
};

}  // namespace kiln

#endif  // KILN_CACHE_CACHE_STACK_H_

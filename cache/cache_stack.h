#ifndef KILN_CACHE_CACHE_STACK_H_
#define KILN_CACHE_CACHE_STACK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/artifact_cache.h"
#include "cache/tuning_cache.h"
#include "cache/unit_cache.h"
#include "proto/base/clock.h"
#include "proto/base/signature.h"

namespace kiln {

struct CacheOptions {
  // The database's folder; made when absent (mode 0700). Empty: memory only,
  // nothing outlives the process.
  std::string folder;
  // Bytes of artifacts on disk before the least recently used give way. Too
  // low: things are compiled twice. Too high: the disk fills.
  int64_t artifact_bytes = int64_t{10} << 30;
  int64_t unit_bytes = int64_t{4} << 30;
  // As in RocksDbOptions: what is left free on the disk.
  int64_t min_free_bytes = int64_t{64} << 20;
  // Bytes of artifacts held ready in memory.
  int64_t memory_bytes = int64_t{64} << 20;
};

// All stores of one daemon, opened and joined:
//
//   entries   -> tiered(bounded(memory), verified(bounded(metered(rocksdb))))
//   indexes   -> tiered(bounded(memory), verified(rocksdb))
//   graphs    -> verified(bounded(rocksdb))
//   units     -> verified(bounded(metered(rocksdb)))
//   tuning    -> verified(rocksdb)
//
// Broken records of all of them go to one quarantine, which is bounded too.
// Thread-safe.
class CacheStack {
 public:
  // `signer` seals records; those of `also_trusted` are believed too. `clock`
  // outlives the stack.
  //
  // A database whose files are damaged is put aside: its folder is renamed to
  // FOLDER.broken-N, the one put aside before is removed, and the stack starts
  // empty. A warning names both folders, and "cache.put_aside" is 1.
  //
  // Errors:
  //   UNAVAILABLE STORAGE  the folder cannot be made or written, the disk is
  //                        full, or another process holds its LOCK; or a
  //                        damaged one cannot be renamed
  static absl::StatusOr<std::unique_ptr<CacheStack>> Open(
      const CacheOptions& options, SigningKey signer,
      std::vector<PublicKey> also_trusted, const Clock& clock);

  ~CacheStack();

  ArtifactCache& artifacts();
  UnitCache& units();
  TuningCache& tuning();

  // "cache.artifacts.bytes", "cache.broken", ..., sorted by name.
  std::vector<std::pair<std::string, int64_t>> Counters() const;

 private:
  struct Layers;
  explicit CacheStack(std::unique_ptr<Layers> layers);
  // ARTIFACT_CORRUPT when the database is damaged; it is closed again then.
  static absl::StatusOr<std::unique_ptr<CacheStack>> OpenSound(
      const CacheOptions& options, const SigningKey& signer,
      const std::vector<PublicKey>& also_trusted, const Clock& clock);

  const std::unique_ptr<Layers> layers_;
  int64_t put_aside_ = 0;  // databases, at the start
};

}  // namespace kiln

#endif  // KILN_CACHE_CACHE_STACK_H_

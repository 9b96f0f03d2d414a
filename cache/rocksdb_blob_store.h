#ifndef KILN_CACHE_ROCKSDB_BLOB_STORE_H_
#define KILN_CACHE_ROCKSDB_BLOB_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/blob_store.h"
#include "cache/row_table.h"
#include "cache/ticker.h"

namespace rocksdb {
class Env;
}

namespace kiln {

class RocksDbHandle;

// What a database keeps apart. The letters are the first byte of every key on
// disk: never reused. E and U were.
enum class RocksDbTable : char {
  kEntries = 'e',
  kIndexes = 'x',
  kGraphs = 'g',
  kUnits = 'u',
  kTuning = 't',
  kQuarantine = 'q',
  kLedger = 'l',
  kUses = 'L',
};

struct RocksDbOptions {
  // Writes are refused while the folder's file system has less than this free.
  // Too low: other writers fill the disk, and reading it back in costs a pause of
  // storing. Too high: a cache that could still store does not.
  int64_t min_free_bytes = int64_t{64} << 20;
  // A write is in the system's hands before it is acknowledged, so the end of the
  // process loses none; the disk is told to keep it at least so often. What a power
  // cut may lose. Zero: with each write.
  absl::Duration sync_every = absl::Seconds(1);
  // For tests that inject faults; null: the machine's own. Outlives the database.
  rocksdb::Env* env = nullptr;
};

// A RocksDB folder. One process at a time has it open.
//
// On disk a blob is two rows, written in one WriteBatch, so that neither is
// there without the other:
//
//   table 'v' digest   the bytes
//   table 'i' digest   their number, u64 little-endian: what a scan reads
//
// and a row of a RowTable is one, under table 'r' digest.
//
// A damaged block costs what is in it: Get gives DATA_LOSS ARTIFACT_CORRUPT for
// that, and scans pass by it; those that are in a damaged block of sizes they read
// themselves. While the disk is full or failing, writes give
// UNAVAILABLE STORAGE and reads go on (rocksdb_handle.h).
//
// Thread-safe. Outlives its stores.
class RocksDb {
 public:
  // Makes the folder (0700) when absent.
  //
  // Errors:
  //   UNAVAILABLE STORAGE  the folder cannot be made, or neither written nor read;
  //                        or another process holds the LOCK file (named)
  //   DATA_LOSS ARTIFACT_CORRUPT  what is there is no database that can be opened.
  //                        Opening does not read all of it
  static absl::StatusOr<std::unique_ptr<RocksDb>> Open(
      const std::string& folder, const RocksDbOptions& options = {});

  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  std::unique_ptr<BlobStore> Store(RocksDbTable table);
  std::unique_ptr<RowTable> Rows(RocksDbTable table);

  // False while the disk is full or failing.
  bool writable() const;
  // Tries to write again, when a write failed. To be called now and then, by one
  // thread.
  void Recover();

  // Of its files, but for the log of writes.
  int64_t PhysicalBytes() const;
  // Rewrites the files without what was deleted from them. Takes minutes for
  // gigabytes; reads and writes go on. CANCELLED when `stop` was set meanwhile;
  // UNAVAILABLE STORAGE; ARTIFACT_CORRUPT where a damaged block is in the way.
  absl::Status Compact(const std::atomic<bool>& stop);

  // Looks for damage that hides other tables, at the start.
  void LookAtTables();
  // Whether that, a read or a compaction has met damage; and to leave the damage behind,
  // with all that it has hit (rocksdb_handle.h). By the thread that calls Recover.
  bool damaged() const;
  absl::Status Mend(const std::atomic<bool>& stop);
  // How often that was done.
  int64_t mended() const;

  // "rocksdb.live_bytes", ...: what RocksDB counts.
  std::vector<std::pair<std::string, int64_t>> Counters() const;

 private:
  explicit RocksDb(std::unique_ptr<RocksDbHandle> handle);
  void Sync();

  const std::unique_ptr<RocksDbHandle> handle_;
  bool sync_each_ = false;
  std::atomic<bool> written_{false};  // since the last sync
  std::optional<Ticker> syncer_;      // last: it uses the rest
};

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_BLOB_STORE_H_

#ifndef KILN_CACHE_ROCKSDB_BLOB_STORE_H_
#define KILN_CACHE_ROCKSDB_BLOB_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/blob_store.h"

namespace rocksdb {
class DB;
}

namespace kiln {

// What a database keeps apart. The letters are the first byte of every key on
// disk: never reused.
enum class RocksDbTable : char {
  kEntries = 'e',
  kEntryUsage = 'E',
  kIndexes = 'x',
  kGraphs = 'g',
  kUnits = 'u',
  kUnitUsage = 'U',
  kTuning = 't',
  kQuarantine = 'q',
};

struct RocksDbOptions {
  // Writes are refused while the folder's file system has less than this free.
  // Debian's RocksDB 7.8 is built with assertions and ends the process when a
  // write to its log fails, so a full disk must be seen before it is hit. Too
  // low: other writers fill the disk between the look and the write. Too high:
  // a cache that could still store does not.
  int64_t min_free_bytes = int64_t{64} << 20;
};

// A RocksDB folder. One process at a time has it open.
//
// On disk a blob is two rows, written in one WriteBatch, so that neither is
// there without the other:
//
//   table 'v' digest   the bytes
//   table 'i' digest   their number, u64 little-endian: what Scan reads
//
// A store's Get and Scan give DATA_LOSS ARTIFACT_CORRUPT for what RocksDB's own
// checksums find damaged.
//
// Thread-safe. Outlives its stores.
class RocksDb {
 public:
  // Makes the folder (0700) when absent.
  //
  // Errors:
  //   UNAVAILABLE STORAGE  the folder cannot be made or written, the disk has
  //                        less than min_free_bytes, or another process holds
  //                        the LOCK file (named)
  //   DATA_LOSS ARTIFACT_CORRUPT  what is there is no sound database. Opening
  //                        does not read all of it: a store's Scan and Get may
  //                        find the same later
  static absl::StatusOr<std::unique_ptr<RocksDb>> Open(
      const std::string& folder, const RocksDbOptions& options = {});

  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  std::unique_ptr<BlobStore> Store(RocksDbTable table);

 private:
  RocksDb(std::string folder, const RocksDbOptions& options,
          std::unique_ptr<rocksdb::DB> db);

  const std::string folder_;
  const RocksDbOptions options_;
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_BLOB_STORE_H_

#ifndef KILN_CACHE_ROCKSDB_BLOB_STORE_H_
#define KILN_CACHE_ROCKSDB_BLOB_STORE_H_

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
  kArtifacts = 'a',
  kArtifactUsage = 'A',
  kUnits = 'u',
  kUnitUsage = 'U',
  kTuning = 't',
  kQuarantine = 'q',
};

// A RocksDB folder. One process at a time has it open.
//
// On disk a blob is two rows, written in one WriteBatch, so that neither is
// there without the other:
//
//   table 'v' digest   the bytes
//   table 'i' digest   their number, u64 little-endian: what Scan reads
//
// Thread-safe. Outlives its stores.
class RocksDb {
 public:
  // Makes the folder (0700) when absent.
  //
  // Errors:
  //   UNAVAILABLE STORAGE  the folder cannot be made or written, the disk is
  //                        full, another process holds the LOCK file (named),
  //                        or what is there is no sound database
  static absl::StatusOr<std::unique_ptr<RocksDb>> Open(
      const std::string& folder);

  ~RocksDb();
  RocksDb(const RocksDb&) = delete;
  RocksDb& operator=(const RocksDb&) = delete;

  std::unique_ptr<BlobStore> Store(RocksDbTable table);

 private:
  RocksDb(std::string folder, std::unique_ptr<rocksdb::DB> db);

  const std::string folder_;
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_BLOB_STORE_H_

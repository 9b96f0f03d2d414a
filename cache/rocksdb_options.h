#ifndef KILN_CACHE_ROCKSDB_OPTIONS_H_
#define KILN_CACHE_ROCKSDB_OPTIONS_H_

#include <rocksdb/options.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// How our databases are opened: sized for a daemon that stands at 60 MB, its log in
// ours, its writes in the system's hands before they are acknowledged, and a damaged
// block no reason to stop: `damaged` is set when a compaction meets one. `env` may be
// null: the machine's own.
rocksdb::Options DatabaseOptions(rocksdb::Env* env,
                                 std::shared_ptr<std::atomic<bool>> damaged);

// A status of RocksDB's about the database in `folder`, as ours: UNAVAILABLE
// STORAGE.
absl::Status StorageError(absl::string_view folder,
                          const rocksdb::Status& status);

// Whether a read found damage, or found that a required file is missing.
bool IsDamage(const rocksdb::Status& status);

// As StorageError, of a read: DATA_LOSS ARTIFACT_CORRUPT where that is damage.
absl::Status ReadError(absl::string_view folder, const rocksdb::Status& status);

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_OPTIONS_H_

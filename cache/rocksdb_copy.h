#ifndef KILN_CACHE_ROCKSDB_COPY_H_
#define KILN_CACHE_ROCKSDB_COPY_H_

#include <rocksdb/db.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Whether each table of the database opens: not when the end of a file is damaged,
// which hides what older tables have too.
bool EachTableOpens(rocksdb::DB& db);

// Copies all rows of `from` that can be read to a new database in `to`: what is
// damaged stays behind, and what was deleted too. `to` is removed first.
//
// CANCELLED when `stop` is set meanwhile; UNAVAILABLE STORAGE.
absl::Status CopyReadableRows(rocksdb::DB& from, absl::string_view folder,
                              const rocksdb::Options& options,
                              const std::string& to,
                              const std::atomic<bool>& stop);

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_COPY_H_

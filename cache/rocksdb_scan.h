#ifndef KILN_CACHE_ROCKSDB_SCAN_H_
#define KILN_CACHE_ROCKSDB_SCAN_H_

#include <rocksdb/db.h>

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/digest.h"

namespace kiln {

// Told of keys whose rows cannot be read: from `first` on, and before `end`, or to the
// end of all. A non-OK ends the scan and is returned.
using PassedBy = absl::FunctionRef<absl::Status(
    const Digest& first, const std::optional<Digest>& end)>;
inline absl::Status PassNothing(const Digest&, const std::optional<Digest>&) {
  return absl::OkStatus();
}

// Visits the rows PREFIX DIGEST of a database from `from` on, in ascending order.
// Where a block is damaged it goes on behind it, after `passed_by`. A non-OK from
// `visit` ends the scan and is returned.
//
// UNAVAILABLE STORAGE where the disk cannot be read.
absl::Status ScanRows(
    rocksdb::DB& db, absl::string_view folder, const std::string& prefix,
    const Digest& from,
    absl::FunctionRef<absl::Status(const Digest& key, absl::string_view row)>
        visit,
    PassedBy passed_by = PassNothing);

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_SCAN_H_

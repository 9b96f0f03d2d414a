#ifndef KILN_TESTS_SUPPORT_DAMAGED_BLOCK_H_
#define KILN_TESTS_SUPPORT_DAMAGED_BLOCK_H_

#include <string>

#include "absl/status/status.h"
#include "cache/rocksdb_blob_store.h"

namespace kiln {

// Flips a bit of one block, on the disk, that holds blobs of this table. Nobody has the
// database in `folder` open.
//
// NOT_FOUND when there is no such block.
absl::Status DamageBlockOf(const std::string& folder, RocksDbTable table);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_DAMAGED_BLOCK_H_

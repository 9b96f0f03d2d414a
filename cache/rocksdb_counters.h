#ifndef KILN_CACHE_ROCKSDB_COUNTERS_H_
#define KILN_CACHE_ROCKSDB_COUNTERS_H_

#include <rocksdb/db.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

// What RocksDB counts of a database and of what it holds, as "rocksdb.tables.bytes".
// Counts are of the time since it was opened.
std::vector<std::pair<std::string, int64_t>> CountersOf(rocksdb::DB& db);

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_COUNTERS_H_

#include "cache/rocksdb_counters.h"

#include <rocksdb/options.h>
#include <rocksdb/statistics.h>

namespace kiln {
namespace {

struct Gauge {
  const char* name;
  const std::string& property;
};
struct Ticks {
  const char* name;
  rocksdb::Tickers ticker;
};

using Properties = rocksdb::DB::Properties;
const Gauge kGauges[] = {
    {"rocksdb.tables.bytes", Properties::kTotalSstFilesSize},
    {"rocksdb.tables.live_bytes", Properties::kEstimateLiveDataSize},
    {"rocksdb.tables.readers_bytes", Properties::kEstimateTableReadersMem},
    {"rocksdb.memtables.bytes", Properties::kCurSizeAllMemTables},
    {"rocksdb.rows", Properties::kEstimateNumKeys},
    {"rocksdb.background_errors", Properties::kBackgroundErrors},
    {"rocksdb.compaction.pending_bytes",
     Properties::kEstimatePendingCompactionBytes},
    {"rocksdb.compactions.running", Properties::kNumRunningCompactions},
};
const Ticks kTicks[] = {
    {"rocksdb.block_cache.hits", rocksdb::BLOCK_CACHE_HIT},
    {"rocksdb.block_cache.misses", rocksdb::BLOCK_CACHE_MISS},
    {"rocksdb.bloom.useful", rocksdb::BLOOM_FILTER_USEFUL},
    {"rocksdb.read_bytes", rocksdb::BYTES_READ},
    {"rocksdb.written_bytes", rocksdb::BYTES_WRITTEN},
    {"rocksdb.log.bytes", rocksdb::WAL_FILE_BYTES},
    {"rocksdb.log.syncs", rocksdb::WAL_FILE_SYNCED},
    {"rocksdb.flush.written_bytes", rocksdb::FLUSH_WRITE_BYTES},
    {"rocksdb.compaction.read_bytes", rocksdb::COMPACT_READ_BYTES},
    {"rocksdb.compaction.written_bytes", rocksdb::COMPACT_WRITE_BYTES},
    {"rocksdb.stall_us", rocksdb::STALL_MICROS},
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> CountersOf(rocksdb::DB& db) {
  std::vector<std::pair<std::string, int64_t>> counters;
  for (const Gauge& gauge : kGauges) {
    uint64_t value = 0;
    if (db.GetIntProperty(gauge.property, &value))
      counters.emplace_back(gauge.name, static_cast<int64_t>(value));
  }
  const auto statistics = db.GetOptions().statistics;
  for (const Ticks& ticks : kTicks) {
    counters.emplace_back(
        ticks.name,
        static_cast<int64_t>(statistics->getTickerCount(ticks.ticker)));
  }
  return counters;
}

}  // namespace kiln

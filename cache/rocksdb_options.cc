#include "cache/rocksdb_options.h"

#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <stdarg.h>
#include <stdio.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/bounded_log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// RocksDB's log lines among ours. With a log file of its own the process would
// end where that cannot be written: Debian builds it with assertions.
class OurLog final : public rocksdb::Logger {
 public:
  OurLog() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list words) override {
    Logv(rocksdb::WARN_LEVEL, format, words);
  }
  void Logv(const rocksdb::InfoLogLevel level, const char* format,
            va_list words) override {
    if (level < rocksdb::WARN_LEVEL) return;
    // Its header lines say how it was opened, which is always so.
    if (level == rocksdb::HEADER_LEVEL) return;
    char line[500];
    vsnprintf(line, sizeof(line), format, words);
    LogBounded("cache.rocksdb", "", line);
  }
};

class DamageListener final : public rocksdb::EventListener {
 public:
  explicit DamageListener(std::shared_ptr<std::atomic<bool>> damaged)
      : damaged_(std::move(damaged)) {}

  void OnCompactionCompleted(rocksdb::DB*,
                             const rocksdb::CompactionJobInfo& job) override {
    if (job.status.IsCorruption()) *damaged_ = true;
  }

 private:
  const std::shared_ptr<std::atomic<bool>> damaged_;
};

}  // namespace

rocksdb::Options DatabaseOptions(rocksdb::Env* env,
                                 std::shared_ptr<std::atomic<bool>> damaged) {
  rocksdb::Options options;
  options.listeners = {std::make_shared<DamageListener>(std::move(damaged))};
  if (env != nullptr) options.env = env;
  options.info_log = std::make_shared<OurLog>();
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.create_if_missing = true;
  options.statistics = rocksdb::CreateDBStatistics();
  options.statistics->set_stats_level(
      rocksdb::StatsLevel::kExceptHistogramOrTimers);
  options.write_buffer_size = size_t{8} << 20;
  options.max_write_buffer_number = 2;
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  // A file is what a repair gives up at most.
  options.target_file_size_base = uint64_t{32} << 20;
  // Each record is signed and stands alone: one that is damaged in the log of
  // writes costs no other, and a damaged block of a table no other block.
  options.wal_recovery_mode =
      rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.paranoid_checks = false;
  options.skip_stats_update_on_db_open = true;
  options.skip_checking_sst_file_sizes_on_db_open = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(size_t{8} << 20);
  // Of larger blocks the tables' indexes, which stay in memory, are smaller.
  table.block_size = size_t{16} << 10;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

absl::Status StorageError(absl::string_view folder,
                          const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (absl::StrContains(text, "LOCK")) {
    return MakeError(
        ErrorReason::kInUse,
        absl::StrCat("database ", folder, ": its LOCK is held by another ",
                     "process; stop that one or use another folder (", text,
                     ")"));
  }
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("database ", folder, ": ", text));
}

bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsPathNotFound();
}

absl::Status ReadError(absl::string_view folder,
                       const rocksdb::Status& status) {
  if (!IsDamage(status)) return StorageError(folder, status);
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("database ", folder, ": ", status.ToString()));
}

}  // namespace kiln

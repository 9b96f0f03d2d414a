#include "cache/rocksdb_blob_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "cache/rocksdb_counters.h"
#include "cache/rocksdb_handle.h"
#include "cache/rocksdb_options.h"
#include "cache/rocksdb_rows.h"
#include "cache/rocksdb_scan.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

std::string RowKey(const std::string& prefix, const Digest& key) {
  return absl::StrCat(prefix, key.bytes());
}

// What both kinds of tables do with a database.
class Access {
 public:
  Access(RocksDbHandle& handle, bool sync_each, std::atomic<bool>& written)
      : handle_(handle), sync_each_(sync_each), written_(written) {}

  absl::Status Get(const std::string& key, const Digest& digest,
                   std::string& value) const {
    const auto open = handle_.Current();
    const rocksdb::Status status = open->db->Get({}, key, &value);
    if (status.ok()) return absl::OkStatus();
    if (status.IsNotFound())
      return absl::NotFoundError(absl::StrCat("blob ", digest.ShortHex()));
    if (IsDamage(status)) handle_.MetDamage(*open);
    return Annotate(ReadError(handle_.folder(), status),
                    absl::StrCat("record ", digest.ShortHex()));
  }

  absl::Status Write(rocksdb::WriteBatch& batch) {
    RETURN_IF_ERROR(
        handle_.CheckWritable(static_cast<int64_t>(batch.GetDataSize())));
    const auto open = handle_.Current();
    rocksdb::WriteOptions options;
    options.sync = sync_each_;
    written_ = true;
    return handle_.Wrote(open->db->Write(options, &batch));
  }

  absl::Status Scan(
      const std::string& prefix, const Digest& from,
      absl::FunctionRef<absl::Status(const Digest&, absl::string_view)> visit,
      PassedBy passed_by) const {
    const auto open = handle_.Current();
    return ScanRows(*open->db, handle_.folder(), prefix, from, visit,
                    [&](const Digest& first, const std::optional<Digest>& end) {
                      handle_.MetDamage(*open);
                      return passed_by(first, end);
                    });
  }

 private:
  RocksDbHandle& handle_;
  const bool sync_each_;
  std::atomic<bool>& written_;
};

class RocksDbBlobStore final : public BlobStore {
 public:
  RocksDbBlobStore(Access rows, RocksDbTable table)
      : rows_(rows),
        values_({static_cast<char>(table), kValueRow}),
        index_({static_cast<char>(table), kSizeRow}) {}

  absl::StatusOr<Blob> Get(const Digest& key) const override {
    auto bytes = std::make_shared<std::string>();
    RETURN_IF_ERROR(rows_.Get(RowKey(values_, key), key, *bytes));
    return Blob(std::move(bytes));
  }

  absl::Status Put(const Digest& key, absl::string_view bytes) override {
    rocksdb::WriteBatch batch;
    batch.Put(RowKey(values_, key), rocksdb::Slice(bytes.data(), bytes.size()));
    batch.Put(RowKey(index_, key), SizeRow(bytes.size()));
    return rows_.Write(batch);
  }

  absl::Status Delete(const Digest& key) override {
    rocksdb::WriteBatch batch;
    batch.Delete(RowKey(values_, key));
    batch.Delete(RowKey(index_, key));
    return rows_.Write(batch);
  }

  absl::Status ScanFrom(const Digest& from,
                        absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                            visit) const override {
    return rows_.Scan(
        index_, from,
        [&visit](const Digest& key, absl::string_view row) {
          return visit(key, SizeIn(row));
        },
        [this, &visit](const Digest& first, const std::optional<Digest>& end) {
          return ScanValues(first, end, visit);
        });
  }

 private:
  // As ScanFrom, by the blobs themselves, where their sizes cannot be read: up to
  // `end`.
  absl::Status ScanValues(
      const Digest& first, const std::optional<Digest>& end,
      absl::FunctionRef<absl::Status(const Digest&, int64_t)> visit) const {
    bool is_past = false;
    const absl::Status scanned = rows_.Scan(
        values_, first,
        [&](const Digest& key, absl::string_view bytes) -> absl::Status {
          is_past = end.has_value() && !(key < *end);
          if (is_past) return absl::CancelledError();
          return visit(key, static_cast<int64_t>(bytes.size()));
        },
        PassNothing);
    return is_past ? absl::OkStatus() : scanned;
  }

  Access rows_;
  const std::string values_;
  const std::string index_;
};

class RocksDbRows final : public RowTable {
 public:
  RocksDbRows(Access rows, RocksDbTable table)
      : rows_(rows), prefix_({static_cast<char>(table), kPlainRow}) {}

  absl::StatusOr<std::string> Get(const Digest& key) const override {
    std::string row;
    RETURN_IF_ERROR(rows_.Get(RowKey(prefix_, key), key, row));
    return row;
  }

  absl::Status Put(const RowTable::Rows& rows) override {
    rocksdb::WriteBatch batch;
    for (const auto& [key, row] : rows) batch.Put(RowKey(prefix_, key), row);
    return rows_.Write(batch);
  }

  absl::Status Delete(const Digest& key) override {
    rocksdb::WriteBatch batch;
    batch.Delete(RowKey(prefix_, key));
    return rows_.Write(batch);
  }

  absl::Status Visit(
      absl::FunctionRef<absl::Status(const Digest&, absl::string_view)> visit)
      const override {
    return rows_.Scan(prefix_, Digest(), visit, PassNothing);
  }

 private:
  Access rows_;
  const std::string prefix_;
};

}  // namespace

RocksDb::RocksDb(std::unique_ptr<RocksDbHandle> handle)
    : handle_(std::move(handle)) {}

RocksDb::~RocksDb() {
  syncer_.reset();
  Sync();
}

absl::StatusOr<std::unique_ptr<RocksDb>> RocksDb::Open(
    const std::string& folder, const RocksDbOptions& options) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("database ", folder,
                                  ": cannot be made: ", error.message()));
  }
  if (made) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all,
                                 error);
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<RocksDbHandle> handle,
      RocksDbHandle::Open(folder, options.min_free_bytes, options.env));
  auto opened = absl::WrapUnique(new RocksDb(std::move(handle)));
  opened->sync_each_ = options.sync_every <= absl::ZeroDuration();
  if (!opened->sync_each_) {
    opened->syncer_.emplace(
        options.sync_every,
        [db = opened.get()](const std::atomic<bool>&) { db->Sync(); });
  }
  return opened;
}

void RocksDb::Sync() {
  if (!written_.exchange(false)) return;
  const auto open = handle_->Current();
  if (!open->writable) return;
  IgnoreBecause(handle_->Wrote(open->db->SyncWAL()),
                "it is logged, and the next write is refused");
}

std::unique_ptr<BlobStore> RocksDb::Store(RocksDbTable table) {
  return std::make_unique<RocksDbBlobStore>(
      Access(*handle_, sync_each_, written_), table);
}

std::unique_ptr<RowTable> RocksDb::Rows(RocksDbTable table) {
  return std::make_unique<RocksDbRows>(Access(*handle_, sync_each_, written_),
                                       table);
}

bool RocksDb::writable() const { return handle_->writable(); }

void RocksDb::LookAtTables() { handle_->LookAtTables(); }

bool RocksDb::damaged() const { return handle_->damaged(); }

int64_t RocksDb::mended() const { return handle_->mended(); }

absl::Status RocksDb::Mend(const std::atomic<bool>& stop) {
  return handle_->Mend(stop);
}

void RocksDb::Recover() { handle_->Recover(); }

int64_t RocksDb::PhysicalBytes() const {
  const auto open = handle_->Current();
  // Builds before wrote large values to files of their own.
  uint64_t tables = 0, blobs = 0;
  open->db->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize,
                           &tables);
  open->db->GetIntProperty(rocksdb::DB::Properties::kTotalBlobFileSize, &blobs);
  return static_cast<int64_t>(tables + blobs);
}

absl::Status RocksDb::Compact(const std::atomic<bool>& stop) {
  const auto open = handle_->Current();
  RETURN_IF_ERROR(handle_->CheckWritable(0));
  std::atomic<bool> canceled{false};
  std::optional<Ticker> watch;
  watch.emplace(absl::Milliseconds(100), [&](const std::atomic<bool>&) {
    if (stop) canceled = true;
  });
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.canceled = &canceled;
  const rocksdb::Status status =
      open->db->CompactRange(options, nullptr, nullptr);
  if (status.IsIncomplete()) return absl::CancelledError("compact: stopped");
  return status.ok() ? absl::OkStatus() : ReadError(handle_->folder(), status);
}

std::vector<std::pair<std::string, int64_t>> RocksDb::Counters() const {
  return CountersOf(*handle_->Current()->db);
}

}  // namespace kiln

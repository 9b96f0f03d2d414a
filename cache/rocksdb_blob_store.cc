#include "cache/rocksdb_blob_store.h"

#include <errno.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <string.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status StorageError(absl::string_view folder,
                          const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (absl::StrContains(text, "LOCK")) {
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("database ", folder, ": its LOCK is held by another ",
                     "process; stop that one or use another folder (", text,
                     ")"));
  }
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("database ", folder, ": ", text));
}

// The same where RocksDB's own checksums may have found damage.
absl::Status ReadError(absl::string_view folder,
                       const rocksdb::Status& status) {
  if (!status.IsCorruption()) return StorageError(folder, status);
  return MakeError(ErrorReason::kArtifactCorrupt,
                   absl::StrCat("database ", folder, ": ", status.ToString()));
}

// Is there room for `bytes` more, with the reserve left over?
absl::Status CheckRoom(const std::string& folder, int64_t bytes,
                       const RocksDbOptions& options) {
  struct statvfs room;
  if (statvfs(folder.c_str(), &room) != 0) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("database ", folder, ": ", strerror(errno)));
  }
  const int64_t free_bytes =
      static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
  if (free_bytes - bytes >= options.min_free_bytes) return absl::OkStatus();
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("database ", folder, ": the disk has ", free_bytes,
                   " bytes free; ", bytes, " to write and ",
                   options.min_free_bytes, " kept in reserve"));
}

std::string LittleEndian(uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> (8 * i));
  return bytes;
}

int64_t FromLittleEndian(const rocksdb::Slice& bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i) {
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i]))
              << (8 * i);
  }
  return static_cast<int64_t>(number);
}

class RocksDbBlobStore final : public BlobStore {
 public:
  RocksDbBlobStore(rocksdb::DB& db, std::string folder,
                   const RocksDbOptions& options, RocksDbTable table)
      : db_(db),
        folder_(std::move(folder)),
        options_(options),
        values_({static_cast<char>(table), 'v'}),
        index_({static_cast<char>(table), 'i'}) {}

  absl::StatusOr<Blob> Get(const Digest& key) const override {
    auto bytes = std::make_shared<std::string>();
    const rocksdb::Status status =
        db_.Get({}, absl::StrCat(values_, key.bytes()), bytes.get());
    if (status.ok()) return Blob(std::move(bytes));
    if (status.IsNotFound()) {
      return absl::NotFoundError(absl::StrCat("blob ", key.ShortHex()));
    }
    return Annotate(ReadError(folder_, status),
                    absl::StrCat("record ", key.ShortHex()));
  }

  absl::Status Put(const Digest& key, absl::string_view bytes) override {
    RETURN_IF_ERROR(CheckRoom(folder_, bytes.size(), options_));
    rocksdb::WriteBatch batch;
    batch.Put(absl::StrCat(values_, key.bytes()),
              rocksdb::Slice(bytes.data(), bytes.size()));
    batch.Put(absl::StrCat(index_, key.bytes()), LittleEndian(bytes.size()));
    return Write(batch);
  }

  absl::Status Delete(const Digest& key) override {
    rocksdb::WriteBatch batch;
    batch.Delete(absl::StrCat(values_, key.bytes()));
    batch.Delete(absl::StrCat(index_, key.bytes()));
    return Write(batch);
  }

  absl::Status Scan(absl::FunctionRef<absl::Status(const Digest&, int64_t)>
                        visit) const override {
    const std::unique_ptr<rocksdb::Iterator> row(db_.NewIterator({}));
    for (row->Seek(index_); row->Valid() && row->key().starts_with(index_);
         row->Next()) {
      const rocksdb::Slice key = row->key();
      const auto digest = Digest::FromBytes(absl::string_view(
          key.data() + index_.size(), key.size() - index_.size()));
      if (!digest.has_value()) continue;
      RETURN_IF_ERROR(visit(*digest, FromLittleEndian(row->value())));
    }
    if (!row->status().ok()) return ReadError(folder_, row->status());
    return absl::OkStatus();
  }

 private:
  absl::Status Write(rocksdb::WriteBatch& batch) {
    const rocksdb::Status status = db_.Write({}, &batch);
    return status.ok() ? absl::OkStatus() : StorageError(folder_, status);
  }

  rocksdb::DB& db_;
  const std::string folder_;
  const RocksDbOptions options_;
  const std::string values_;
  const std::string index_;
};

// Sized for a daemon that stands at 60 MB: large values go to blob files and
// pass through no block cache.
rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{8} << 20;
  options.max_write_buffer_number = 2;
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.enable_blob_garbage_collection = true;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.keep_log_file_num = 2;
  options.max_log_file_size = size_t{4} << 20;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(size_t{8} << 20);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

RocksDb::RocksDb(std::string folder, const RocksDbOptions& options,
                 std::unique_ptr<rocksdb::DB> db)
    : folder_(std::move(folder)), options_(options), db_(std::move(db)) {}

RocksDb::~RocksDb() { db_->Close().PermitUncheckedError(); }

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
  RETURN_IF_ERROR(CheckRoom(folder, /*bytes=*/0, options));
  rocksdb::DB* db = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(), folder, &db);
  // The folder is there: what is missing is a file that another one names.
  if (status.IsPathNotFound()) {
    status = rocksdb::Status::Corruption(status.ToString());
  }
  if (!status.ok()) return ReadError(folder, status);
  return std::unique_ptr<RocksDb>(
      new RocksDb(folder, options, std::unique_ptr<rocksdb::DB>(db)));
}

std::unique_ptr<BlobStore> RocksDb::Store(RocksDbTable table) {
  return std::make_unique<RocksDbBlobStore>(*db_, folder_, options_, table);
}

}  // namespace kiln

#include "cache/rocksdb_copy.h"

#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/rocksdb_options.h"
#include "cache/rocksdb_rows.h"
#include "cache/rocksdb_scan.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;

// Writes to the copy, a batch at a time. The size of a blob is written with it, also
// where its own row was damaged, and no size without its blob.
class Copy {
 public:
  Copy(rocksdb::DB& db, absl::string_view folder) : db_(db), folder_(folder) {}

  absl::Status Put(const rocksdb::Slice& key, const rocksdb::Slice& row) {
    const char part = key.size() > 1 ? key[1] : '\0';
    if (part == kSizeRow) return absl::OkStatus();
    batch_.Put(key, row);
    if (part == kValueRow) {
      std::string size_key = key.ToString();
      size_key[1] = kSizeRow;
      batch_.Put(size_key, SizeRow(row.size()));
    }
    return batch_.GetDataSize() < kBatchBytes ? absl::OkStatus() : Write();
  }
  absl::Status Write() {
    const rocksdb::Status written = db_.Write({}, &batch_);
    batch_.Clear();
    return written.ok() ? absl::OkStatus() : StorageError(folder_, written);
  }
  bool Has(const std::string& key) {
    std::string value;
    return !db_.Get({}, key, &value).IsNotFound();
  }

 private:
  rocksdb::DB& db_;
  const absl::string_view folder_;
  rocksdb::WriteBatch batch_;
};

// Row by row, through the database.
absl::Status CopyRows(rocksdb::DB& from, absl::string_view folder, Copy& copy,
                      const std::atomic<bool>& stop) {
  // Every key is two letters and a digest (rocksdb_blob_store.h).
  for (int table = 'A'; table <= 'z'; ++table) {
    for (int part = 'a'; part <= 'z'; ++part) {
      const std::string prefix = {static_cast<char>(table),
                                  static_cast<char>(part)};
      RETURN_IF_ERROR(ScanRows(
          from, folder, prefix, Digest(),
          [&](const Digest& key, absl::string_view row) -> absl::Status {
            if (stop) return absl::CancelledError("mend: told to stop");
            return copy.Put(absl::StrCat(prefix, key.bytes()),
                            rocksdb::Slice(row.data(), row.size()));
          }));
    }
  }
  return copy.Write();
}

// A scan passes by all keys between the ends of a damaged block, also those that
// newer tables have. Blobs are named a second time, by their sizes.
absl::Status CopyBlobsPassedBy(rocksdb::DB& from, absl::string_view folder,
                               Copy& copy, const std::atomic<bool>& stop) {
  for (int table = 'A'; table <= 'z'; ++table) {
    const std::string sizes = {static_cast<char>(table), kSizeRow};
    const std::string values = {static_cast<char>(table), kValueRow};
    RETURN_IF_ERROR(
        ScanRows(from, folder, sizes, Digest(),
                 [&](const Digest& digest, absl::string_view) -> absl::Status {
                   if (stop) return absl::CancelledError("mend: told to stop");
                   const std::string key = absl::StrCat(values, digest.bytes());
                   std::string value;
                   if (copy.Has(key) || !from.Get({}, key, &value).ok())
                     return absl::OkStatus();
                   return copy.Put(key, value);
                 }));
  }
  return copy.Write();
}

std::string PathOf(const rocksdb::LiveFileMetaData& table) {
  return absl::StrCat(table.db_path, table.name);
}

// The tables from the oldest to the youngest: a row of a later one replaces that of
// one before.
std::vector<rocksdb::LiveFileMetaData> TablesOf(rocksdb::DB& db) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db.GetLiveFilesMetaData(&tables);
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.level, a.smallest_seqno) <
           std::pair(-b.level, b.smallest_seqno);
  });
  return tables;
}

// A table that is read alone has no manifest to be compared with, which RocksDB
// would warn of.
rocksdb::Options OneTable(rocksdb::Options options) {
  options.verify_sst_unique_id_in_manifest = false;
  return options;
}

bool EachOpens(const std::vector<rocksdb::LiveFileMetaData>& tables,
               const rocksdb::Options& options) {
  return std::all_of(tables.begin(), tables.end(), [&](const auto& table) {
    return rocksdb::SstFileReader(OneTable(options)).Open(PathOf(table)).ok();
  });
}

// Table by table, for a database with one that does not even open: any key may lie
// behind it. What was deleted since it was written to an older table comes back.
absl::Status CopyTables(const std::vector<rocksdb::LiveFileMetaData>& tables,
                        const rocksdb::Options& options, Copy& copy,
                        const std::atomic<bool>& stop) {
  for (const rocksdb::LiveFileMetaData& table : tables) {
    rocksdb::SstFileReader reader(OneTable(options));
    if (!reader.Open(PathOf(table)).ok()) continue;
    const std::unique_ptr<rocksdb::Iterator> row(reader.NewIterator({}));
    for (row->SeekToFirst(); row->Valid(); row->Next()) {
      if (stop) return absl::CancelledError("mend: told to stop");
      RETURN_IF_ERROR(copy.Put(row->key(), row->value()));
    }
  }
  return copy.Write();
}

}  // namespace

bool EachTableOpens(rocksdb::DB& db) {
  return EachOpens(TablesOf(db), db.GetOptions());
}

absl::Status CopyReadableRows(rocksdb::DB& from, absl::string_view folder,
                              const rocksdb::Options& options,
                              const std::string& to,
                              const std::atomic<bool>& stop) {
  std::error_code error;
  std::filesystem::remove_all(to, error);
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(options, to, &opened);
  if (!status.ok()) return StorageError(to, status);
  const std::unique_ptr<rocksdb::DB> db(opened);
  Copy copy(*db, to);
  const std::vector<rocksdb::LiveFileMetaData> tables = TablesOf(from);
  if (EachOpens(tables, options)) {
    RETURN_IF_ERROR(CopyRows(from, folder, copy, stop));
    RETURN_IF_ERROR(CopyBlobsPassedBy(from, folder, copy, stop));
  } else {
    RETURN_IF_ERROR(CopyTables(tables, options, copy, stop));
  }
  status = db->Flush({});
  if (status.ok()) status = db->Close();
  return status.ok() ? absl::OkStatus() : StorageError(to, status);
}

}  // namespace kiln

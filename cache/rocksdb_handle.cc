#include "cache/rocksdb_handle.h"

#include <rocksdb/env.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/rocksdb_copy.h"
#include "cache/rocksdb_options.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Beside the database while it is mended: the copy that is to take its place, and
// what had it.
constexpr absl::string_view kMended = ".mended";
constexpr absl::string_view kDamaged = ".damaged";

// Ends what a crash has left of a mending. A copy is whole once the damaged one was
// moved away for it.
void FinishMending(const std::string& folder) {
  std::error_code error;
  const std::string mended = folder + std::string(kMended);
  const std::string damaged = folder + std::string(kDamaged);
  if (std::filesystem::exists(damaged, error)) {
    if (std::filesystem::exists(mended, error)) {
      // It may have been made anew, and empty.
      std::filesystem::remove_all(folder, error);
      std::filesystem::rename(mended, folder, error);
    }
    if (std::filesystem::exists(folder, error))
      std::filesystem::remove_all(damaged, error);
  }
  std::filesystem::remove_all(mended, error);
}

// Builds before kept the times of uses in tables E and U; the ledger has them now.
void ForgetOldUses(rocksdb::DB& db) {
  for (const auto& [table, end] : {std::pair("E", "F"), std::pair("U", "V")}) {
    const std::unique_ptr<rocksdb::Iterator> row(db.NewIterator({}));
    row->Seek(table);
    if (!row->Valid() || !row->key().starts_with(table)) continue;
    db.DeleteRange({}, db.DefaultColumnFamily(), table, end)
        .PermitUncheckedError();
  }
}

}  // namespace

RocksDbHandle::RocksDbHandle(std::string folder, int64_t min_free_bytes,
                             rocksdb::Env* env)
    : folder_(std::move(folder)),
      min_free_bytes_(min_free_bytes),
      damaged_(std::make_shared<std::atomic<bool>>(false)),
      options_(DatabaseOptions(env, damaged_)) {}

RocksDbHandle::~RocksDbHandle() { GiveLockBack(); }

// Who reads alone takes no lock of RocksDB's: two processes must not both.
void RocksDbHandle::HoldLock() {
  rocksdb::FileLock* lock = nullptr;
  if (options_.env->LockFile(folder_ + "/LOCK", &lock).ok()) lock_ = lock;
}

void RocksDbHandle::GiveLockBack() {
  if (lock_ != nullptr) options_.env->UnlockFile(lock_).PermitUncheckedError();
  lock_ = nullptr;
}

absl::Status RocksDbHandle::CheckRoom(int64_t bytes) const {
  uint64_t free_bytes = 0;
  const rocksdb::Status asked =
      options_.env->GetFreeSpace(folder_, &free_bytes);
  if (!asked.ok()) return StorageError(folder_, asked);
  if (static_cast<int64_t>(free_bytes) - bytes >= min_free_bytes_)
    return absl::OkStatus();
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("database ", folder_, ": the disk has ", free_bytes,
                   " bytes free; ", bytes, " to write and ", min_free_bytes_,
                   " kept in reserve"));
}

absl::StatusOr<std::shared_ptr<RocksDbHandle::OpenDb>>
RocksDbHandle::OpenForWriting() {
  RETURN_IF_ERROR(CheckRoom(0));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options_, folder_, &db);
  if (!status.ok()) return ReadError(folder_, status);
  auto opened = std::make_shared<OpenDb>();
  opened->db.reset(db);
  opened->writable = true;
  ForgetOldUses(*db);
  return opened;
}

absl::StatusOr<std::shared_ptr<RocksDbHandle::OpenDb>>
RocksDbHandle::OpenForReading() {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(options_, folder_, &db);
  if (!status.ok()) return ReadError(folder_, status);
  auto opened = std::make_shared<OpenDb>();
  opened->db.reset(db);
  return opened;
}

absl::StatusOr<std::unique_ptr<RocksDbHandle>> RocksDbHandle::Open(
    const std::string& folder, int64_t min_free_bytes, rocksdb::Env* env) {
  auto handle =
      absl::WrapUnique(new RocksDbHandle(folder, min_free_bytes, env));
  FinishMending(folder);
  rocksdb::Env* const disk = handle->options_.env;
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status locked = disk->LockFile(folder + "/LOCK", &lock);
  if (!locked.ok()) return StorageError(folder, locked);
  disk->UnlockFile(lock).PermitUncheckedError();
  auto opened = handle->OpenForWriting();
  if (ReasonOf(opened.status()) == ErrorReason::kStorage) {
    const absl::Status why = opened.status();
    opened = handle->OpenForReading();
    if (!opened.ok()) return why;
    handle->failed_ = true;
    handle->HoldLock();
    LogWarning("cache.read_only",
               {{"folder", folder}, {"because", why.ToString()}});
  }
  RETURN_IF_ERROR(opened.status());
  handle->Replace(*std::move(opened));
  return handle;
}

std::shared_ptr<const RocksDbHandle::OpenDb> RocksDbHandle::Current() const {
  MutexLock lock(&mu_);
  return current_;
}

void RocksDbHandle::Replace(std::shared_ptr<OpenDb> opened) {
  MutexLock lock(&mu_);
  current_.swap(opened);
}

absl::Status RocksDbHandle::CheckWritable(int64_t bytes) const {
  RETURN_IF_ERROR(CheckRoom(bytes));
  if (writable()) return absl::OkStatus();
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("database ", folder_,
                                ": open for reading alone, since a write "
                                "failed; it is tried again"));
}

absl::Status RocksDbHandle::Wrote(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (!failed_.exchange(true)) {
    LogWarning("cache.write_failed",
               {{"folder", folder_}, {"because", status.ToString()}});
  }
  return StorageError(folder_, status);
}

// What was written stays to be read; who reads it already goes on until he is done.
absl::Status RocksDbHandle::ReadAlone() {
  ASSIGN_OR_RETURN(std::shared_ptr<OpenDb> reading, OpenForReading());
  MutexLock lock(&mu_);
  ending_ = std::exchange(current_, std::move(reading));
  return absl::OkStatus();
}

void RocksDbHandle::Recover() {
  if (!failed_) return;
  if (Current()->writable) {
    // Where that fails it stays as it is: what is in memory of it can be read.
    if (!ReadAlone().ok()) return;
    LogWarning("cache.read_only", {{"folder", folder_}});
  }
  if (ending_.use_count() > 1 || !CheckRoom(0).ok()) return;
  ending_.reset();
  GiveLockBack();
  absl::StatusOr<std::shared_ptr<OpenDb>> writing = OpenForWriting();
  if (!writing.ok()) {
    HoldLock();
    return;
  }
  Replace(*std::move(writing));
  failed_ = false;
  LogInfo("cache.writable", {{"folder", folder_}});
}

void RocksDbHandle::LookAtTables() {
  const auto open = Current();
  // A compaction may delete a table between the list and the look, which is no
  // damage. A database that is open for reading only refuses, and deletes nothing.
  const bool held = open->db->DisableFileDeletions().ok();
  if (!EachTableOpens(*open->db)) *damaged_ = true;
  if (held)
    open->db->EnableFileDeletions(/*force=*/false).PermitUncheckedError();
}

// What is read until it is closed, and left behind, says nothing of what is stored.
void RocksDbHandle::MetDamage(const OpenDb& open) {
  MutexLock lock(&mu_);
  if (!open.left_behind) *damaged_ = true;
}

absl::Status RocksDbHandle::TakeMended(const std::string& mended) {
  std::error_code error;
  std::filesystem::rename(folder_, folder_ + std::string(kDamaged), error);
  if (!error) std::filesystem::rename(mended, folder_, error);
  FinishMending(folder_);
  if (error) {
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("database ", folder_, ": its mended copy can't ",
                     "take its place: ", error.message()));
  }
  MutexLock lock(&mu_);
  current_->left_behind = true;
  *damaged_ = false;
  return absl::OkStatus();
}

absl::Status RocksDbHandle::Mend(const std::atomic<bool>& stop) {
  uint64_t stored = 0;
  Current()->db->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize,
                                &stored);
  RETURN_IF_ERROR(CheckWritable(static_cast<int64_t>(stored)));
  failed_ = true;  // from here on Recover makes it writable again
  RETURN_IF_ERROR(ReadAlone());
  while (ending_.use_count() > 1) {
    if (stop) return absl::CancelledError("mend: told to stop");
    absl::SleepFor(absl::Milliseconds(1));
  }
  // What is in memory goes to a table; where that fails it is in the log of writes.
  ending_->db->Flush({}).PermitUncheckedError();
  ending_.reset();
  HoldLock();
  const std::string mended = folder_ + std::string(kMended);
  // Who wrote still while ReadAlone opened it has ended: now all is there.
  ASSIGN_OR_RETURN(const std::shared_ptr<OpenDb> reading, OpenForReading());
  Replace(reading);
  RETURN_IF_ERROR(
      CopyReadableRows(*reading->db, folder_, options_, mended, stop));
  GiveLockBack();
  RETURN_IF_ERROR(TakeMended(mended));
  LogWarning("cache.mended", {{"folder", folder_}});
  Recover();
  ++mended_;
  return absl::OkStatus();
}

}  // namespace kiln

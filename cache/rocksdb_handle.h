#ifndef KILN_CACHE_ROCKSDB_HANDLE_H_
#define KILN_CACHE_ROCKSDB_HANDLE_H_

#include <rocksdb/db.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/mutex.h"

namespace kiln {

// A database, opened as the disk lets it be: for reading and writing, or for
// reading alone while the disk is full or failing; and back again by Recover. So
// what is stored is served all the same.
//
//   writing --a write failed--> reading --room, and a write works--> writing
//
// Damage that a read or a compaction meets is mended by Mend: a copy of all that can
// be read takes the database's place. While that is made, the old one is read.
//
// Thread-safe, but for Recover and Mend: one thread at a time calls them.
class RocksDbHandle {
 public:
  // While somebody holds one it stays open.
  struct OpenDb {
    std::unique_ptr<rocksdb::DB> db;
    bool writable = false;
    bool left_behind = false;  // a mended copy has its place; the handle's lock
    ~OpenDb() { db->Close().PermitUncheckedError(); }
  };

  // `env` may be null: the machine's own; it outlives the handle.
  //   UNAVAILABLE STORAGE         held by another process, or not even readable
  //   DATA_LOSS ARTIFACT_CORRUPT  what is there is no database
  static absl::StatusOr<std::unique_ptr<RocksDbHandle>> Open(
      const std::string& folder, int64_t min_free_bytes, rocksdb::Env* env);
  ~RocksDbHandle();

  std::shared_ptr<const OpenDb> Current() const;
  bool writable() const { return !failed_ && Current()->writable; }

  // Is there room for `bytes` more, with the reserve left over? UNAVAILABLE
  // STORAGE where not, and where the database is open for reading alone.
  absl::Status CheckWritable(int64_t bytes) const;

  // A write ended so: after a failure the database is written no more until
  // Recover has opened it anew. Gives the status as ours.
  absl::Status Wrote(const rocksdb::Status& status);

  // Takes the next step on the way above, if there is one to take.
  void Recover();

  // Whether a compaction, LookAtTables or who reads has met damage since this was
  // opened or mended.
  bool damaged() const { return damaged_->load(); }
  // A read of `open` has met damage.
  void MetDamage(const OpenDb& open);
  // Opens each table once, as lookups would: some milliseconds for each.
  void LookAtTables();
  // Leaves the damage behind. Takes as much room as what is stored, and minutes for
  // gigabytes; the database is read meanwhile, and not written.
  //   CANCELLED when `stop` is set meanwhile; UNAVAILABLE STORAGE: it is as it was
  absl::Status Mend(const std::atomic<bool>& stop);
  // How often that was done.
  int64_t mended() const { return mended_; }

  const std::string& folder() const { return folder_; }

 private:
  RocksDbHandle(std::string folder, int64_t min_free_bytes, rocksdb::Env* env);

  absl::Status CheckRoom(int64_t bytes) const;
  absl::StatusOr<std::shared_ptr<OpenDb>> OpenForWriting();
  absl::StatusOr<std::shared_ptr<OpenDb>> OpenForReading();
  void Replace(std::shared_ptr<OpenDb> opened);
  absl::Status ReadAlone();
  // Puts the copy in the place of what is read now.
  absl::Status TakeMended(const std::string& mended);
  void HoldLock();
  void GiveLockBack();

  const std::string folder_;
  const int64_t min_free_bytes_;
  const std::shared_ptr<std::atomic<bool>> damaged_;
  const rocksdb::Options options_;
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> mended_{0};
  rocksdb::FileLock* lock_ = nullptr;  // while it is open for reading alone
  std::shared_ptr<OpenDb> ending_;     // not written any more; who reads ends
  mutable Mutex mu_;
  std::shared_ptr<OpenDb> current_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_ROCKSDB_HANDLE_H_

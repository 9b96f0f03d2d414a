#include "cache/rocksdb_blob_store.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>

#include "proto/base/status.h"

namespace kiln {
namespace {

const Digest kKey = Sha256Of("key");

class RocksDbTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RocksDbTest, BlobsOutliveTheProcessThatPutThem) {
  {
    const auto db = RocksDb::Open(folder_);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE(
        (*db)->Store(RocksDbTable::kEntries)->Put(kKey, "bytes").ok());
  }
  const auto db = RocksDb::Open(folder_);
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_EQ(**(*db)->Store(RocksDbTable::kEntries)->Get(kKey), "bytes");
}

TEST_F(RocksDbTest, TablesAreApart) {
  const auto db = RocksDb::Open(folder_);
  const auto artifacts = (*db)->Store(RocksDbTable::kEntries);
  const auto units = (*db)->Store(RocksDbTable::kUnits);
  ASSERT_TRUE(artifacts->Put(kKey, "bytes").ok());
  EXPECT_TRUE(absl::IsNotFound(units->Get(kKey).status()));
  int seen = 0;
  ASSERT_TRUE(units
                  ->Scan([&seen](const Digest&, int64_t) {
                    ++seen;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(seen, 0);
}

TEST_F(RocksDbTest, ASecondOpenerIsToldOfTheLock) {
  const auto first = RocksDb::Open(folder_);
  ASSERT_TRUE(first.ok());
  const absl::Status second = RocksDb::Open(folder_).status();
  EXPECT_EQ(ReasonOf(second), ErrorReason::kStorage);
  EXPECT_NE(second.message().find("LOCK"), absl::string_view::npos) << second;
}

TEST_F(RocksDbTest, AFolderThatCannotBeMadeIsStorage) {
  std::ofstream(folder_) << "a file stands here";
  const absl::Status status = RocksDb::Open(folder_ + "/db").status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStorage) << status;
}

TEST_F(RocksDbTest, AFullDiskIsStorageAndWhatWasThereStays) {
  {
    const auto db = RocksDb::Open(folder_);
    const auto store = (*db)->Store(RocksDbTable::kEntries);
    ASSERT_TRUE(store->Put(kKey, "before").ok());
    // More than any disk has left.
    const absl::Status full =
        RocksDb::Open(folder_ + "2", {.min_free_bytes = int64_t{1} << 60})
            .status();
    EXPECT_EQ(ReasonOf(full), ErrorReason::kStorage) << full;
  }
  struct statvfs room;
  ASSERT_EQ(statvfs(folder_.c_str(), &room), 0);
  const int64_t free_bytes = room.f_bavail * room.f_frsize;
  // Room enough to open, not for what is put.
  const auto db =
      RocksDb::Open(folder_, {.min_free_bytes = free_bytes - (64 << 20)});
  ASSERT_TRUE(db.ok()) << db.status();
  const auto store = (*db)->Store(RocksDbTable::kEntries);
  const absl::Status full = store->Put(kKey, std::string(128 << 20, 'x'));
  EXPECT_EQ(ReasonOf(full), ErrorReason::kStorage) << full;
  EXPECT_EQ(**store->Get(kKey), "before");
}

}  // namespace
}  // namespace kiln

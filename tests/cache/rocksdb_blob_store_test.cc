#include "cache/rocksdb_blob_store.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/log.h"
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
    ASSERT_TRUE((*db)->Store(RocksDbTable::kEntries)->Put(kKey, "bytes").ok());
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
  EXPECT_EQ(ReasonOf(second), ErrorReason::kInUse);
  EXPECT_NE(second.message().find("LOCK"), absl::string_view::npos) << second;
}

TEST_F(RocksDbTest, AFolderThatCannotBeMadeIsStorage) {
  std::ofstream(folder_) << "a file stands here";
  const absl::Status status = RocksDb::Open(folder_ + "/db").status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStorage) << status;
}

TEST_F(RocksDbTest, UsesAsBuildsBeforeKeptThemAreForgotten) {
  const auto old = static_cast<RocksDbTable>('E');
  {
    const auto db = RocksDb::Open(folder_);
    ASSERT_TRUE((*db)->Store(old)->Put(kKey, "8 bytes.").ok());
    ASSERT_TRUE((*db)->Store(RocksDbTable::kEntries)->Put(kKey, "bytes").ok());
  }
  const auto db = RocksDb::Open(folder_);
  EXPECT_TRUE(absl::IsNotFound((*db)->Store(old)->Get(kKey).status()));
  EXPECT_EQ(**(*db)->Store(RocksDbTable::kEntries)->Get(kKey), "bytes");
}

// What a crash leaves of a mending, at each of its steps.
TEST_F(RocksDbTest, AMendingThatWasCutOffIsEndedAtTheStart) {
  const auto put = [](const std::string& folder, const std::string& bytes) {
    const auto db = RocksDb::Open(folder);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Store(RocksDbTable::kEntries)->Put(kKey, bytes).ok());
  };
  const auto found = [this] {
    const auto db = RocksDb::Open(folder_);
    EXPECT_TRUE(db.ok()) << db.status();
    EXPECT_FALSE(std::filesystem::exists(folder_ + ".mended"));
    EXPECT_FALSE(std::filesystem::exists(folder_ + ".damaged"));
    return **(*db)->Store(RocksDbTable::kEntries)->Get(kKey);
  };
  put(folder_, "damaged");
  put(folder_ + ".mended", "half a copy");
  EXPECT_EQ(found(), "damaged");
  put(folder_ + ".mended", "copy");
  std::filesystem::rename(folder_, folder_ + ".damaged");
  EXPECT_EQ(found(), "copy");
  put(folder_ + ".damaged", "damaged");
  EXPECT_EQ(found(), "copy");
}

TEST_F(RocksDbTest, MendingKeepsWhatCanBeReadAndWritesGoOn) {
  const auto db = RocksDb::Open(folder_);
  ASSERT_TRUE(db.ok()) << db.status();
  const auto store = (*db)->Store(RocksDbTable::kEntries);
  const auto rows = (*db)->Rows(RocksDbTable::kLedger);
  ASSERT_TRUE(store->Put(kKey, "bytes").ok());
  ASSERT_TRUE(store->Put(Sha256Of("gone"), "bytes").ok());
  ASSERT_TRUE(store->Delete(Sha256Of("gone")).ok());
  ASSERT_TRUE(rows->Put({{kKey, "row"}}).ok());
  const std::atomic<bool> stopped{true}, never{false};
  EXPECT_TRUE(absl::IsCancelled((*db)->Mend(stopped)));
  // In vain while the look at the tables still reads what was opened before.
  for (int i = 0; i < 10'000 && !(*db)->writable(); ++i) {
    absl::SleepFor(absl::Milliseconds(1));
    (*db)->Recover();
  }
  const absl::Status mended = (*db)->Mend(never);
  ASSERT_TRUE(mended.ok()) << mended;
  EXPECT_TRUE((*db)->writable());
  EXPECT_EQ(**store->Get(kKey), "bytes");
  EXPECT_EQ(*rows->Get(kKey), "row");
  EXPECT_TRUE(absl::IsNotFound(store->Get(Sha256Of("gone")).status()));
  EXPECT_TRUE(store->Put(kKey, "more").ok());
}

// The machine's files; does something when the next one is opened for reading.
class WatchedFiles final : public rocksdb::FileSystemWrapper {
 public:
  WatchedFiles() : FileSystemWrapper(FileSystem::Default()) {}
  const char* Name() const override { return "WatchedFiles"; }

  rocksdb::IOStatus NewRandomAccessFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
      rocksdb::IODebugContext* debug) override {
    if (at_next_open) std::exchange(at_next_open, nullptr)();
    return FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
  }

  std::function<void()> at_next_open;
};

TEST_F(RocksDbTest, TablesThatACompactionReplacesMeanwhileAreNoDamage) {
  const auto files = std::make_shared<WatchedFiles>();
  const auto env = rocksdb::NewCompositeEnv(files);
  // Each start leaves what was put before in a table of its own.
  for (const char* blob : {"a", "b", "c"}) {
    const auto db = RocksDb::Open(folder_, {.env = env.get()});
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)
                    ->Store(RocksDbTable::kEntries)
                    ->Put(Sha256Of(blob), "bytes")
                    .ok());
  }
  const auto db = RocksDb::Open(folder_, {.env = env.get()});
  ASSERT_TRUE(db.ok()) << db.status();
  bool compacted = false;
  files->at_next_open = [&] {
    const std::atomic<bool> never{false};
    compacted = (*db)->Compact(never).ok();
  };
  (*db)->LookAtTables();
  EXPECT_TRUE(compacted);
  EXPECT_FALSE((*db)->damaged());
}

// Opens a database with a table in it as a daemon does when it starts, and ends:
// with 1 when a line of a log was written.
[[noreturn]] void StartAgain(const std::string& folder) {
  std::atomic<bool> said{false};
  const absl::Status heard = ConfigureLog({.sink = [&](absl::string_view line) {
    fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    said = true;
  }});
  bool stored = false;
  for (int start = 0; heard.ok() && start < 2; ++start) {
    const auto db = RocksDb::Open(folder);
    if (!db.ok()) break;
    stored = (*db)->Store(RocksDbTable::kEntries)->Put(kKey, "bytes").ok();
    (*db)->LookAtTables();
  }
  std::_Exit(stored && !said ? 0 : 1);
}

// A process of its own: RocksDB warns of some things once.
TEST_F(RocksDbTest, ASoundDatabaseIsOpenedWithoutAWord) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(StartAgain(folder_), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln

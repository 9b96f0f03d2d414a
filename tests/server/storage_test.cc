// What operators do with a cache while it serves, and a daemon whose disk is full.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cache/rocksdb_blob_store.h"
#include "gtest/gtest.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/damaged_block.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using Stub = wire::AdminService::Stub;
using wire::CompileResult;
using wire::MaintainRequest;

template <typename Reply, typename Request, typename Method>
Reply Ask(TestDaemon& d, Method method, const Request& request,
          grpc::StatusCode due = grpc::StatusCode::OK) {
  grpc::ClientContext context;
  Reply reply;
  const grpc::Status status =
      ((*AdminStub(d.client())).*method)(&context, request, &reply);
  EXPECT_EQ(status.error_code(), due) << status.error_message();
  return reply;
}

int64_t Stat(TestDaemon& d, const std::string& name) {
  const auto reply =
      Ask<wire::StatsReply>(d, &Stub::Stats, wire::StatsRequest());
  for (const wire::Counter& counter : reply.counters())
    if (counter.name() == name) return counter.value();
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

CompileResult::ServedFrom Compile(TestDaemon& d, const std::string& salt) {
  const CompileAnswer answer =
      d.client().Compile(FakeRequest({"fake.salt." + salt}));
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  return answer.result.served_from();
}

wire::MaintainReply Maintain(TestDaemon& d, MaintainRequest::Task task) {
  MaintainRequest request;
  request.set_task(task);
  auto reply = Ask<wire::MaintainReply>(d, &Stub::Maintain, request);
  request.clear_task();
  while (reply.running())
    reply = Ask<wire::MaintainReply>(d, &Stub::Maintain, request);
  EXPECT_EQ(reply.task(), task);
  EXPECT_EQ(reply.error(), "");
  return reply;
}

TEST(Storage, AScrubReadsEverythingWhileTheDaemonServes) {
  TestDaemon d;
  for (int i = 0; i < 20; ++i) Compile(d, absl::StrCat(i));
  const wire::MaintainReply found = Maintain(d, MaintainRequest::TASK_SCRUB);
  // An entry, its index, its graph and its unit, of each.
  EXPECT_GE(found.records(), 4u * 20u);
  EXPECT_EQ(found.damaged() + found.unnamed() + found.dangling(), 0u);
  EXPECT_EQ(Maintain(d, MaintainRequest::TASK_VERIFY).records(),
            found.records());
  EXPECT_GT(Maintain(d, MaintainRequest::TASK_COMPACT).disk_bytes(), 0u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(Compile(d, absl::StrCat(i)), CompileResult::SERVED_FROM_CACHE);
}

TEST(Storage, RocksDbTellsItsStatistics) {
  TestDaemon d;
  Compile(d, "a");
  EXPECT_GT(Stat(d, "rocksdb.written_bytes"), 0);
  EXPECT_GE(Stat(d, "rocksdb.tables.bytes"), 0);
  EXPECT_EQ(Stat(d, "cache.writable"), 1);
}

TEST(Storage, APinnedEntryOutlivesOthersAndARestart) {
  TestDaemon d([](Config& config) { config.cache_budget_entries = 4; });
  const CompileAnswer first = d.client().Compile(FakeRequest({"fake.salt.0"}));
  ASSERT_TRUE(first.status.ok()) << first.status;
  wire::PinRequest pin;
  pin.set_key_prefix_hex(absl::BytesToHexString(first.result.compile_key()));
  const auto pinned = Ask<wire::PinReply>(d, &Stub::Pin, pin);
  ASSERT_EQ(pinned.entries_size(), 1);
  EXPECT_TRUE(pinned.entries(0).pinned());
  d.Restart();
  for (int i = 1; i < 20; ++i) Compile(d, absl::StrCat(i));
  while (Stat(d, "cache.artifacts.entries") > 4) {
  }
  EXPECT_EQ(Stat(d, "cache.artifacts.pinned"), 1);
  EXPECT_EQ(Compile(d, "0"), CompileResult::SERVED_FROM_CACHE);
  pin.set_unpin(true);
  EXPECT_FALSE(Ask<wire::PinReply>(d, &Stub::Pin, pin).entries(0).pinned());
  EXPECT_EQ(Stat(d, "cache.artifacts.pinned"), 0);
  pin.set_key_prefix_hex("");
  Ask<wire::PinReply>(d, &Stub::Pin, pin, grpc::StatusCode::INVALID_ARGUMENT);
  pin.set_key_prefix_hex("ffff0000ffff");
  Ask<wire::PinReply>(d, &Stub::Pin, pin, grpc::StatusCode::NOT_FOUND);
}

TEST(Storage, PinsTakeHalfOfABudgetAndNoMore) {
  TestDaemon d([](Config& config) { config.cache_budget_entries = 4; });
  for (int i = 0; i < 3; ++i) {
    const CompileAnswer made =
        d.client().Compile(FakeRequest({absl::StrCat("fake.salt.", i)}));
    ASSERT_TRUE(made.status.ok()) << made.status;
    wire::PinRequest pin;
    pin.set_key_prefix_hex(absl::BytesToHexString(made.result.compile_key()));
    Ask<wire::PinReply>(
        d, &Stub::Pin, pin,
        i < 2 ? grpc::StatusCode::OK : grpc::StatusCode::OUT_OF_RANGE);
  }
  EXPECT_EQ(Stat(d, "cache.artifacts.pinned"), 2);
}

TEST(Storage, ADaemonServesBesideADamagedBlockOfIndexes) {
  constexpr int kKeys = 120;
  TestDaemon d;
  for (int i = 0; i < kKeys; ++i) Compile(d, absl::StrCat(i));
  d.Stop();
  ASSERT_EQ(DamageBlockOf(d.config().data_folder + "/records",
                          RocksDbTable::kIndexes),
            absl::OkStatus());
  d.Restart();
  EXPECT_EQ(Stat(d, "cache.writable"), 1);
  int lost = 0;
  for (int i = 0; i < kKeys; ++i)
    lost += Compile(d, absl::StrCat(i)) == CompileResult::SERVED_FROM_COMPILE;
  EXPECT_GE(lost, 1);
  EXPECT_LT(lost, kKeys);
  // The block is left behind by itself. What was compiled meanwhile was not stored.
  while (Stat(d, "cache.mended") == 0) {
  }
  for (int i = 0; i < kKeys; ++i) Compile(d, absl::StrCat(i));
  for (int i = 0; i < kKeys; ++i)
    EXPECT_EQ(Compile(d, absl::StrCat(i)), CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(Stat(d, "cache.put_aside"), 0);
}

// A folder on a file system in memory, on which nobody else writes; another run of
// this test waits for the end of this one.
class MemoryFolder {
 public:
  MemoryFolder() : disk_(open("/dev/shm", O_RDONLY | O_CLOEXEC)) {
    EXPECT_EQ(flock(disk_, LOCK_EX), 0);
    char name[] = "/dev/shm/kiln-test-XXXXXX";
    path_ = mkdtemp(name) == nullptr ? "" : name;
  }
  ~MemoryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    close(disk_);
  }
  const std::string& path() const { return path_; }
  int64_t FreeBytes() const {
    struct statvfs room = {};
    EXPECT_EQ(statvfs(path_.c_str(), &room), 0);
    return static_cast<int64_t>(room.f_bavail) *
           static_cast<int64_t>(room.f_frsize);
  }
  std::string filler() const { return path_ + "/filler"; }
  void Fill(int64_t bytes) const {
    const int fd = open(filler().c_str(), O_CREAT | O_WRONLY, 0600);
    EXPECT_EQ(posix_fallocate(fd, 0, bytes), 0);
    close(fd);
  }

 private:
  const int disk_;
  std::string path_;
};

TEST(Storage, ADaemonOnAFullDiskStartsServesHitsAndStoresOnceThereIsRoom) {
  const MemoryFolder disk;
  ASSERT_FALSE(disk.path().empty()) << "/dev/shm is due";
  const int64_t filler = std::min(int64_t{32} << 20, disk.FreeBytes() / 4);
  const int64_t reserve = disk.FreeBytes() - filler / 2;
  TestDaemon d([&](Config& config) {
    config.data_folder = disk.path() + "/data";
    config.min_free_bytes = reserve;
  });
  Compile(d, "a");
  d.Stop();
  disk.Fill(filler);
  d.Restart();
  EXPECT_EQ(Stat(d, "cache.writable"), 0);
  EXPECT_EQ(Compile(d, "a"), CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(Compile(d, "b"), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(Compile(d, "b"), CompileResult::SERVED_FROM_COMPILE);
  std::filesystem::remove(disk.filler());
  while (Stat(d, "cache.writable") == 0) {
  }
  EXPECT_EQ(Compile(d, "b"), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(Compile(d, "b"), CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(Compile(d, "a"), CompileResult::SERVED_FROM_CACHE);
}

}  // namespace
}  // namespace kiln

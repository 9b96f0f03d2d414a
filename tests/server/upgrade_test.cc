// A daemon on the data folder of a build that wrote another version of records.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/entry_format.h"
#include "cache/rocksdb_blob_store.h"
#include "proto/base/status.h"
#include "tests/support/key_named.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// What 3424e7c wrote into the "cache" of its data folder: eight artifacts.
constexpr char kVersion1[] = "tests/server/data/records_version_1.tar.gz";
constexpr int kArtifacts = 8;
constexpr char kArtifactsTable = 'a';  // as it called the table

std::map<std::string, std::string> FilesBelow(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[fs::relative(entry.path(), folder).string()] = bytes.str();
  }
  return files;
}

void Unpack(const std::string& folder) {
  fs::create_directories(folder);
  ASSERT_EQ(
      std::system(absl::StrCat("tar -xzf ", kVersion1, " -C ", folder).c_str()),
      0);
}

TEST(Upgrade, FilesOfTheBuildBeforeStayAsTheyAreAndItCanComeBack) {
  TestDaemon d;
  d.Stop();
  const std::string data = d.config().data_folder;
  Unpack(data);
  const std::string old = absl::StrCat(data, "/cache");
  const auto before = FilesBelow(old);
  ASSERT_FALSE(before.empty());
  d.Restart();
  ExpectWellAndEmpty(d);
  d.Stop();
  EXPECT_EQ(FilesBelow(old), before);

  // The build before finds all of its records.
  const auto db = RocksDb::Open(old);
  ASSERT_TRUE(db.ok()) << db.status();
  int records = 0;
  const auto store = (*db)->Store(static_cast<RocksDbTable>(kArtifactsTable));
  ASSERT_TRUE(store
                  ->Scan([&](const Digest& key, int64_t) {
                    ++records;
                    const auto record = store->Get(key);
                    EXPECT_TRUE(record.ok()) << record.status();
                    if (!record.ok()) return absl::OkStatus();
                    // Whole, and told from a damaged one.
                    EXPECT_EQ(ReasonOf(OpenRecord(key, **record, {}).status()),
                              ErrorReason::kArtifactIncompatible);
                    std::string damaged = **record;
                    damaged[5] ^= 1;  // of the version
                    EXPECT_EQ(ReasonOf(OpenRecord(key, damaged, {}).status()),
                              ErrorReason::kArtifactCorrupt);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(records, kArtifacts);
}

// A worker says what its compiler was made from; the bytes of the program are not
// asked for.
TEST(Upgrade, ACompilerRebuiltFromEqualSourcesHits) {
  TestDaemon d([](Config& config) {
    const std::string copy = absl::StrCat(config.data_folder, ".worker");
    fs::copy_file(fs::canonical(config.worker_program), copy);
    config.worker_program = copy;
  });
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  const CompileAnswer made = d.client().Compile(request);
  ASSERT_TRUE(made.status.ok()) << made.status;
  d.Stop();
  const std::string program = d.config().worker_program;
  const auto size = fs::file_size(program);
  std::ofstream(program, std::ios::binary | std::ios::app) << "rebuilt";
  ASSERT_GT(fs::file_size(program), size);
  d.Restart();
  const auto found = d.client().Lookup(LookupFor(request));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->outcome(), wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(found->artifact().artifact(), made.result.artifact().artifact());
  EXPECT_EQ(d.count(Count::kPlans), 0);
}

// The record as its build would have stored it under that key.
std::string Moved(std::string record, const Digest& key) {
  constexpr size_t kSumAt = 16, kKeyAt = 24, kPayloadAt = 56, kTrailer = 72;
  const auto number = [](uint64_t value) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  record.replace(kKeyAt, Digest::kBytes, key.ToBytes());
  const std::string payload =
      record.substr(kPayloadAt, record.size() - kPayloadAt - kTrailer);
  const std::string summed =
      record.substr(0, kSumAt) + key.ToBytes() + number(Xxh3_64(payload));
  return record.replace(kSumAt, 8, number(Xxh3_64(summed)));
}

// One that comes from elsewhere, in the place of ours.
TEST(Upgrade, ARecordOfAnotherVersionIsAMissAndIsLeftAlone) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/other_version");
  fs::remove_all(folder);
  Unpack(folder);
  const auto old = RocksDb::Open(folder + "/cache");
  ASSERT_TRUE(old.ok()) << old.status();
  const auto theirs = (*old)->Store(static_cast<RocksDbTable>(kArtifactsTable));
  std::vector<Digest> keys;
  ASSERT_TRUE(theirs
                  ->Scan([&keys](const Digest& key, int64_t) {
                    keys.push_back(key);
                    return absl::OkStatus();
                  })
                  .ok());
  const CompileKey named = KeyNamed("ours");
  CacheOptions options;
  options.folder = folder + "/records";
  {
    const auto db = RocksDb::Open(options.folder);
    const auto ours = (*db)->Store(RocksDbTable::kIndexes);
    for (const Digest& key : keys)
      ASSERT_TRUE(ours->Put(key, **theirs->Get(key)).ok());
    // Also where this build would store something.
    ASSERT_TRUE(
        ours->Put(named.digest, Moved(**theirs->Get(keys[0]), named.digest))
            .ok());
  }
  const RealClock clock;
  {
    const auto stack = CacheStack::Open(
        options, std::make_shared<KeyRing>(*SigningKey::Generate()), clock);
    ASSERT_TRUE(stack.ok()) << stack.status();
    ArtifactCache& artifacts = (*stack)->artifacts();
    EXPECT_EQ(artifacts.Lookup(keys[0], {{}, {}}).outcome, CacheOutcome::kMiss);
    EXPECT_TRUE(artifacts.List({})->entries.empty());
    NewEntry entry;
    entry.key = named;
    EXPECT_EQ(ReasonOf(artifacts.Insert(std::move(entry))),
              ErrorReason::kArtifactIncompatible);
  }
  const auto db = RocksDb::Open(options.folder);
  const auto ours = (*db)->Store(RocksDbTable::kIndexes);
  for (const Digest& key : keys)
    EXPECT_EQ(**ours->Get(key), **theirs->Get(key));
}

}  // namespace
}  // namespace kiln

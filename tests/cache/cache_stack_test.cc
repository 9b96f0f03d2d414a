#include "cache/cache_stack.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/memory_blob_store.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/tuning_cache.h"
#include "proto/base/status.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

NewEntry Entry(const std::string& name, const std::string& bytes) {
  NewEntry entry;
  entry.key = KeyNamed(name);
  entry.artifact.set_artifact(bytes);
  return entry;
}

class CacheStackTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(options_.folder); }

  std::unique_ptr<CacheStack> Open() {
    auto stack = CacheStack::Open(options_, keys_, clock_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return stack.ok() ? *std::move(stack) : nullptr;
  }
  static int64_t Counter(const CacheStack& stack, const std::string& name) {
    const auto rows = stack.Counters();
    return std::map<std::string, int64_t>(rows.begin(), rows.end()).at(name);
  }
  // Changes each record of a table, behind the cache's back.
  void Change(RocksDbTable table, std::function<void(std::string&)> change) {
    const auto db = RocksDb::Open(options_.folder);
    ASSERT_TRUE(db.ok()) << db.status();
    const auto store = (*db)->Store(table);
    std::vector<Digest> keys;
    ASSERT_TRUE(store
                    ->Scan([&keys](const Digest& key, int64_t) {
                      keys.push_back(key);
                      return absl::OkStatus();
                    })
                    .ok());
    for (const Digest& key : keys) {
      std::string record = **store->Get(key);
      change(record);
      ASSERT_TRUE(store->Put(key, record).ok());
    }
  }
  void Spoil(RocksDbTable table) {
    Change(table, [](std::string& record) { record[record.size() / 2] ^= 1; });
  }

  CacheOptions options_ = {
      .folder = testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name(),
      .tidy_every = absl::ZeroDuration()};
  const std::shared_ptr<const KeyRing> keys_ =
      std::make_shared<KeyRing>(*SigningKey::Generate());
  FakeClock clock_;
};

TEST_F(CacheStackTest, EverythingOutlivesARestart) {
  wire::ObjectCode object;
  object.set_image("image");
  object.set_log("noise");
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64");
  wire::TuningDecision decision;
  decision.set_key("row_sum");
  decision.set_choice("rows=4");
  const Digest unit = UnitCache::Key(Sha256Of("unit"), target, "g++ 12");
  {
    const auto stack = Open();
    ASSERT_TRUE(stack->artifacts().Insert(Entry("a", "bytes")).ok());
    ASSERT_TRUE(stack->units().Insert(unit, object, {}).ok());
    ASSERT_TRUE(stack->tuning().Insert(target, decision).ok());
  }
  const auto stack = Open();
  EXPECT_EQ(
      stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).artifact.artifact(),
      "bytes");
  EXPECT_EQ(stack->units().Lookup(unit)->image(), "image");
  EXPECT_EQ(stack->units().Lookup(unit)->log(), "");
  ASSERT_EQ(stack->tuning().DecisionsFor(target)->size(), 1u);
  EXPECT_EQ(stack->tuning().DecisionsFor(target)->at(0).choice(), "rows=4");
  EXPECT_TRUE(stack->tuning().DecisionsFor(wire::Target())->empty());
}

// A later client's, say.
TEST(TuningCache, ADecisionIsForATargetWhateverElseIsSaidOfIt) {
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64-v3");
  wire::Target with_more = target;
  with_more.GetReflection()
      ->MutableUnknownFields(&with_more)
      ->AddVarint(1000, 1);
  with_more.mutable_cpu()
      ->GetReflection()
      ->MutableUnknownFields(with_more.mutable_cpu())
      ->AddVarint(1000, 1);
  wire::TuningDecision decision;
  decision.set_key("kernel");
  decision.set_choice("rows=4");
  MemoryBlobStore store;
  TuningCache tuning(store);
  ASSERT_TRUE(tuning.Insert(target, decision).ok());
  ASSERT_EQ(tuning.DecisionsFor(with_more)->size(), 1u);
  decision.set_choice("rows=8");
  ASSERT_TRUE(tuning.Insert(with_more, decision).ok());
  EXPECT_EQ(tuning.size(), 1);
  EXPECT_EQ(tuning.DecisionsFor(target)->at(0).choice(), "rows=8");
  TuningCache again(store);
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.DecisionsFor(with_more)->at(0).choice(), "rows=8");
}

TEST(TuningCache, ADecisionOfAnotherVersionIsPassedBy) {
  MemoryBlobStore store;
  wire::TuningDecision decision;
  decision.set_key("row_sum");
  decision.set_choice("rows=4");
  ASSERT_TRUE(TuningCache(store).Insert(wire::Target(), decision).ok());
  std::vector<Digest> keys;
  ASSERT_TRUE(store
                  .Scan([&keys](const Digest& key, int64_t) {
                    keys.push_back(key);
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_EQ(keys.size(), 1u);
  TuningCache same(store);
  ASSERT_TRUE(same.Load().ok());
  EXPECT_EQ(same.size(), 1);
  // As a version with another way to file them would have stored it.
  ASSERT_TRUE(store.Put(Sha256Of("row_sum"), **store.Get(keys[0])).ok());
  ASSERT_TRUE(store.Delete(keys[0]).ok());
  TuningCache other(store);
  ASSERT_TRUE(other.Load().ok());
  EXPECT_EQ(other.size(), 0);
}

TEST_F(CacheStackTest, ASecondLookupIsServedFromMemory) {
  { ASSERT_TRUE(Open()->artifacts().Insert(Entry("a", "bytes")).ok()); }
  const auto stack = Open();
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).hit());
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).hit());
  EXPECT_EQ(Counter(*stack, "cache.artifacts.disk_reads"), 1);
}

TEST_F(CacheStackTest, AFlippedBitIsAMissACounterAndAQuarantinedRecord) {
  { ASSERT_TRUE(Open()->artifacts().Insert(Entry("a", "bytes")).ok()); }
  Spoil(RocksDbTable::kEntries);
  const auto stack = Open();
  EXPECT_EQ(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).outcome,
            CacheOutcome::kBroken);
  EXPECT_EQ(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).outcome,
            CacheOutcome::kMiss);
  EXPECT_EQ(Counter(*stack, "cache.broken"), 1);
  EXPECT_EQ(Counter(*stack, "cache.quarantine.records"), 1);
  EXPECT_EQ(Counter(*stack, "cache.artifacts.entries"), 0);
  ASSERT_TRUE(stack->artifacts().Insert(Entry("a", "again")).ok());
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).hit());
}

TEST_F(CacheStackTest, ABrokenUnitIsBuiltAgain) {
  wire::ObjectCode object;
  object.set_image("image");
  { ASSERT_TRUE(Open()->units().Insert(Sha256Of("u"), object, {}).ok()); }
  Spoil(RocksDbTable::kUnits);
  const auto stack = Open();
  EXPECT_FALSE(stack->units().Lookup(Sha256Of("u")).has_value());
  EXPECT_EQ(Counter(*stack, "cache.broken"), 1);
}

TEST_F(CacheStackTest, RecordsOfAStrangerAreNotBelieved) {
  { ASSERT_TRUE(Open()->artifacts().Insert(Entry("a", "bytes")).ok()); }
  std::vector<std::optional<ErrorReason>> refused;
  options_.on_refused = [&refused](const Digest&, const absl::Status& why) {
    refused.push_back(ReasonOf(why));
  };
  const auto stack = CacheStack::Open(
      options_, std::make_shared<KeyRing>(*SigningKey::Generate()), clock_);
  ASSERT_TRUE(stack.ok());
  EXPECT_EQ((*stack)->artifacts().Lookup(KeyOfName("a"), {{}, {}}).outcome,
            CacheOutcome::kBroken);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0], ErrorReason::kArtifactUntrusted);
}

TEST_F(CacheStackTest, TheDiskStaysWithinItsBudget) {
  options_.budgets.bytes = 20000;
  const auto stack = Open();
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(absl::Seconds(1));
    ASSERT_TRUE(stack->artifacts()
                    .Insert(Entry(std::to_string(i), std::string(1000, 'x')))
                    .ok());
  }
  EXPECT_GT(Counter(*stack, "cache.artifacts.bytes"), 20000);
  stack->Tidy();
  EXPECT_LE(Counter(*stack, "cache.artifacts.bytes"), 20000);
  EXPECT_GT(Counter(*stack, "cache.artifacts.evicted"), 0);
  // What was evicted is in no list.
  EXPECT_EQ(stack->artifacts().List({})->entries.size(),
            static_cast<size_t>(Counter(*stack, "cache.artifacts.entries")));
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("19"), {{}, {}}).hit());
}

// Once the ledger is loaded; before that a page has whatever keys come next.
TEST_F(CacheStackTest, APageOfASmallNamespaceLooksAtItsKeysAlone) {
  {
    const auto stack = Open();
    for (const char* team : {"team-a", "team-b", "team-c"}) {
      NewEntry entry;
      entry.key = KeyNamed("model", team);
      entry.cache_namespace = team;
      ASSERT_TRUE(stack->artifacts().Insert(std::move(entry)).ok());
    }
  }
  const auto stack = Open();
  const PageQuery query{.cache_namespace = "team-a", .most_keys = 1};
  const auto before = stack->artifacts().List(query);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_TRUE(before->next.has_value());
  stack->Tidy();
  const auto page = stack->artifacts().List(query);
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(page->entries[0].cache_namespace, "team-a");
  EXPECT_FALSE(page->next.has_value());
}

TEST_F(CacheStackTest, ASecondDaemonOnTheFolderIsRefused) {
  const auto first = Open();
  const auto second = CacheStack::Open(options_, keys_, clock_);
  EXPECT_EQ(ReasonOf(second.status()), ErrorReason::kInUse);
}

TEST_F(CacheStackTest, WithoutAFolderItIsOfMemoryAlone) {
  options_.folder = "";
  const auto stack = Open();
  ASSERT_TRUE(stack->artifacts().Insert(Entry("a", "bytes")).ok());
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("a"), {{}, {}}).hit());
}

// One bit of a file, behind everybody's back.
void FlipBit(const std::filesystem::path& file, int64_t bit) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(bit / 8);
  const char byte = static_cast<char>(bytes.get() ^ (1 << (bit % 8)));
  bytes.seekp(bit / 8);
  bytes.put(byte);
  ASSERT_TRUE(bytes.good()) << file;
}

class DamagedDatabase : public CacheStackTest {
 protected:
  void SetUp() override {
    parent_ = options_.folder;
    std::filesystem::remove_all(parent_);
    options_.folder += "/cache";
  }

  // Puts an artifact, and has the database move it from its log to a table.
  void Fill() {
    ASSERT_TRUE(Open()->artifacts().Insert(Entry("a", "bytes")).ok());
    ASSERT_NE(Open(), nullptr);
  }
  // The first file whose name has `part`.
  std::filesystem::path FileOf(const std::string& part) const {
    for (const auto& entry :
         std::filesystem::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (name.find(part) != std::string::npos) return entry.path();
    }
    return {};
  }
  std::set<std::string> Folders() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(parent_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  // Opens what was damaged: it works, whatever it still has.
  void ExpectServes() {
    const auto stack = Open();
    ASSERT_NE(stack, nullptr);
    EXPECT_TRUE(stack->artifacts().Insert(Entry("b", "other")).ok());
    EXPECT_TRUE(stack->artifacts().Lookup(KeyOfName("b"), {{}, {}}).hit());
    put_aside_ = Counter(*stack, "cache.put_aside");
  }

  std::filesystem::path parent_;
  int64_t put_aside_ = 0;
};

TEST_F(DamagedDatabase, IsPutAsideWhenItCannotBeOpened) {
  for (const char* part : {"MANIFEST", "CURRENT"}) {
    std::filesystem::remove_all(parent_);
    Fill();
    const auto file = FileOf(part);
    ASSERT_FALSE(file.empty()) << part;
    FlipBit(file, 4 * static_cast<int64_t>(std::filesystem::file_size(file)));
    ExpectServes();
    EXPECT_EQ(put_aside_, 1) << part;
    EXPECT_EQ(Folders(), std::set<std::string>({"cache", "cache.broken-1"}))
        << part;
    ExpectServes();
    EXPECT_EQ(put_aside_, 0) << part;
  }
}

TEST_F(DamagedDatabase, WhatWasPutAsideOutlivesASecondDamage) {
  std::set<std::string> due = {"cache"};
  for (int i = 1; i <= 8; ++i) {
    Fill();
    FlipBit(FileOf("CURRENT"), 8);
    ExpectServes();
    due.insert(absl::StrCat("cache.broken-", i));
    EXPECT_EQ(Folders(), due);
  }
  // Then the disk is to be looked at; the damaged database stays as it is.
  Fill();
  FlipBit(FileOf("CURRENT"), 8);
  const absl::Status refused =
      CacheStack::Open(options_, keys_, clock_).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(refused.message(), "look at the disk"))
      << refused;
  EXPECT_EQ(Folders(), due);
}

TEST_F(DamagedDatabase, AFileThatIsMissingIsDamage) {
  Fill();
  std::filesystem::remove(FileOf("MANIFEST"));
  ExpectServes();
  EXPECT_EQ(put_aside_, 1);
  Fill();
  std::filesystem::remove(FileOf(".sst"));
  ExpectServes();
  EXPECT_EQ(put_aside_, 0);
}

// Some bits are of no account, and some only of the record that they are in.
TEST_F(DamagedDatabase, NoBitOfItsFilesKeepsTheCacheFromStarting) {
  constexpr int64_t kSteps = 8;
  for (const char* part : {".sst", "MANIFEST", "CURRENT"}) {
    for (int64_t step = 0; step < kSteps; ++step) {
      std::filesystem::remove_all(parent_);
      Fill();
      const auto file = FileOf(part);
      const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
      FlipBit(file, bytes * step / kSteps * 8 + step);
      ExpectServes();
    }
  }
}

}  // namespace
}  // namespace kiln

// A disk that is full, fails, or has lost a block: hits are served, writes refused
// until it takes them again, and damage costs what it hit.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/upkeep.h"
#include "proto/base/status.h"
#include "tests/support/damaged_block.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

CompileKey KeyOf(int number) {
  return KeyNamed(absl::StrCat("entry ", number));
}

std::string BytesOf(int number) {
  return absl::StrCat(number, std::string(3000, 'a' + number % 26));
}

class DiskFaultTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(options_.folder); }

  void Open() {
    stack_.reset();
    auto opened = CacheStack::Open(options_, keys_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    stack_ = *std::move(opened);
  }
  absl::Status Insert(int number) {
    NewEntry entry;
    entry.key = KeyOf(number);
    entry.artifact.set_artifact(BytesOf(number));
    return stack_->artifacts().Insert(std::move(entry));
  }
  CacheOutcome Lookup(int number) {
    const CacheAnswer answer =
        stack_->artifacts().Lookup(KeyOf(number).digest, {{}, {}});
    if (answer.hit()) {
      EXPECT_EQ(answer.artifact.artifact(), BytesOf(number));
    }
    return answer.outcome;
  }
  bool Hits(int number) { return Lookup(number) == CacheOutcome::kHit; }
  // As the upkeep does while time passes.
  void Tidy() {
    clock_.Advance(Upkeep::kRecoverEvery);
    stack_->Tidy();
  }
  int64_t Counter(const std::string& name) {
    const auto rows = stack_->Counters();
    return std::map<std::string, int64_t>(rows.begin(), rows.end()).at(name);
  }

  FaultyDisk disk_;
  FakeClock clock_;
  const std::shared_ptr<const KeyRing> keys_ =
      std::make_shared<KeyRing>(*SigningKey::Generate());
  // Nothing is held in memory: hits come from the disk.
  CacheOptions options_ = {
      .folder = testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name(),
      .env = disk_.env(),
      .memory_bytes = 0,
      .tidy_every = absl::ZeroDuration()};
  std::unique_ptr<CacheStack> stack_;
};

// How a disk refuses a write, by name.
using Fault = std::pair<const char*, std::function<void(FaultyDisk&, bool on)>>;

class RefusedWrites : public DiskFaultTest,
                      public testing::WithParamInterface<Fault> {
 protected:
  void Break(bool on) { GetParam().second(disk_, on); }
};

TEST_P(RefusedWrites, HitsAreServedAndStoringGoesOnByItself) {
  options_.folder += GetParam().first;
  std::filesystem::remove_all(options_.folder);
  Open();
  ASSERT_TRUE(Insert(1).ok());
  Break(true);
  EXPECT_EQ(ReasonOf(Insert(2)), ErrorReason::kStorage);
  EXPECT_TRUE(Hits(1));
  for (int i = 0; i < 3; ++i) {
    Tidy();
    EXPECT_EQ(ReasonOf(Insert(2)), ErrorReason::kStorage);
    EXPECT_TRUE(Hits(1));
  }
  // A daemon that starts now serves too.
  Open();
  EXPECT_TRUE(Hits(1));
  EXPECT_EQ(ReasonOf(Insert(3)), ErrorReason::kStorage);
  Break(false);
  Tidy();
  Tidy();
  ASSERT_TRUE(Insert(4).ok());
  EXPECT_EQ(Counter("cache.writable"), 1);
  EXPECT_EQ(Counter("cache.put_aside"), 0);
  Open();
  EXPECT_TRUE(Hits(1));
  EXPECT_TRUE(Hits(4));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedWrites,
    testing::Values(Fault{"Reserve",
                          [](FaultyDisk& disk, bool on) {
                            disk.faults().free_bytes = on ? 1 << 20 : -1;
                          }},
                    Fault{"Full", [](FaultyDisk& disk,
                                     bool on) { disk.faults().full = on; }},
                    Fault{"Short",
                          [](FaultyDisk& disk, bool on) {
                            disk.faults().short_writes = on;
                          }}),
    [](const auto& info) { return info.param.first; });

TEST_F(DiskFaultTest, ADiskThatKeepsNothingRefusesWritesUntilItDoes) {
  options_.sync_every = absl::ZeroDuration();
  Open();
  ASSERT_TRUE(Insert(1).ok());
  disk_.faults().fails_sync = true;
  EXPECT_EQ(ReasonOf(Insert(2)), ErrorReason::kStorage);
  Tidy();
  EXPECT_TRUE(Hits(1));
  EXPECT_EQ(Counter("cache.writable"), 0);
  disk_.faults().fails_sync = false;
  Tidy();
  Tidy();
  ASSERT_TRUE(Insert(3).ok());
  EXPECT_TRUE(Hits(1));
  EXPECT_TRUE(Hits(3));
}

TEST_F(DiskFaultTest, WhatCannotBeReadForAWhileIsAMissForAWhile) {
  Open();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Insert(i).ok());
  Open();  // into tables, and nothing of them in memory
  disk_.faults().fails_reads = true;
  EXPECT_EQ(Lookup(1), CacheOutcome::kMiss);
  disk_.faults().fails_reads = false;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(Hits(i)) << i;
  EXPECT_EQ(Counter("cache.broken"), 0);
}

TEST_F(DiskFaultTest, ADatabaseThatCannotBeReadAtTheStartIsLeftAsItIs) {
  Open();
  ASSERT_TRUE(Insert(1).ok());
  stack_.reset();
  disk_.faults().fails_reads = true;
  const absl::Status refused =
      CacheStack::Open(options_, keys_, clock_).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStorage) << refused;
  disk_.faults().fails_reads = false;
  Open();
  EXPECT_TRUE(Hits(1));
  EXPECT_EQ(Counter("cache.put_aside"), 0);
}

class OneDamagedBlock : public DiskFaultTest {
 protected:
  static constexpr int kEntries = 400;

  // Fills the cache and damages a block of the table.
  void Damage(RocksDbTable table) {
    Open();
    for (int i = 0; i < kEntries; ++i) ASSERT_TRUE(Insert(i).ok());
    stack_.reset();
    ASSERT_EQ(DamageBlockOf(options_.folder, table), absl::OkStatus());
    Open();
    stack_->Tidy();
  }
  std::vector<int> Lost() {
    std::vector<int> lost;
    for (int i = 0; i < kEntries; ++i)
      if (!Hits(i)) lost.push_back(i);
    return lost;
  }
  // Reads alone meet the block: the next round leaves it behind, and no sound entry
  // with it, while hits are served.
  void ExpectReadsMendIt() {
    const std::vector<int> lost = Lost();
    EXPECT_EQ(Counter("cache.mended"), 0);
    std::optional<std::vector<int>> lost_meanwhile;
    disk_.faults().at_new_file = [&](const std::string& name) {
      if (!absl::StrContains(name, ".mended/") || lost_meanwhile.has_value())
        return;
      // On a thread of its own, as the upkeep stands still for it.
      std::thread([&] { lost_meanwhile = Lost(); }).join();
    };
    Tidy();
    disk_.faults().at_new_file = nullptr;
    EXPECT_EQ(lost_meanwhile, lost);
    EXPECT_EQ(Counter("cache.mended"), 1);
    EXPECT_EQ(Counter("cache.writable"), 1);
    EXPECT_EQ(Lost(), lost);
    // Nothing is left of it that could be met again.
    const std::atomic<bool> never{false};
    ScrubReport report;
    const absl::Status scrubbed = stack_->Scrub(
        /*mend=*/false, never, [&](const ScrubReport& now) { report = now; });
    ASSERT_TRUE(scrubbed.ok()) << scrubbed;
    EXPECT_EQ(report.damaged, 0);
    clock_.Advance(Upkeep::kMendEvery);
    Tidy();
    EXPECT_EQ(Counter("cache.mended"), 1);
    ExpectMendedBy(lost);
  }
  // Those that are lost are stored again, and a compaction gives the block up, and no
  // more.
  void ExpectMendedBy(const std::vector<int>& lost) {
    for (const int i : lost) {
      ASSERT_TRUE(Insert(i).ok());
      EXPECT_TRUE(Hits(i)) << i;
    }
    const std::atomic<bool> never{false};
    const absl::Status compacted = stack_->Compact(never);
    EXPECT_TRUE(compacted.ok()) << compacted;
    EXPECT_EQ(Lost(), std::vector<int>());
    EXPECT_EQ(Counter("cache.put_aside"), 0);
    EXPECT_EQ(stack_->artifacts().List({})->entries.size(),
              static_cast<size_t>(kEntries));
  }
};

TEST_F(OneDamagedBlock, OfEntriesCostsItsEntriesAndNoOthers) {
  Damage(RocksDbTable::kEntries);
  const std::vector<int> lost = Lost();
  EXPECT_GE(lost.size(), 1u);
  EXPECT_LE(lost.size(), 20u);
  ExpectMendedBy(lost);
}

TEST_F(OneDamagedBlock, OfIndexesCostsTheKeysInItAndNoOthers) {
  Damage(RocksDbTable::kIndexes);
  const std::vector<int> lost = Lost();
  EXPECT_GE(lost.size(), 1u);
  EXPECT_LE(lost.size(), size_t{kEntries} / 4);
  // They lie in one block: no key between two that are lost is there.
  std::map<Digest, bool> is_lost;
  for (int i = 0; i < kEntries; ++i) is_lost[KeyOf(i).digest] = false;
  for (const int i : lost) is_lost[KeyOf(i).digest] = true;
  size_t runs = 0;
  bool before = false;
  for (const auto& [key, is] : is_lost) {
    runs += is && !before ? 1 : 0;
    before = is;
  }
  EXPECT_EQ(runs, 1u);
  EXPECT_EQ(stack_->artifacts().List({})->entries.size(),
            size_t{kEntries} - lost.size());
  ExpectMendedBy(lost);
}

TEST_F(OneDamagedBlock, OfEntriesIsLeftBehindOnceAReadHasMetIt) {
  Damage(RocksDbTable::kEntries);
  ExpectReadsMendIt();
}

TEST_F(OneDamagedBlock, OfIndexesIsLeftBehindOnceAReadHasMetIt) {
  Damage(RocksDbTable::kIndexes);
  ExpectReadsMendIt();
}

// No lookup reads it.
TEST_F(OneDamagedBlock, OfGraphsIsLeftBehindOnceAVerificationHasMetIt) {
  Damage(RocksDbTable::kGraphs);
  const std::atomic<bool> never{false};
  const absl::Status walked =
      stack_->Scrub(/*mend=*/false, never, [](const ScrubReport&) {});
  ASSERT_TRUE(walked.ok()) << walked;
  ExpectReadsMendIt();
}

// Their entries are still there, and name their keys.
TEST_F(OneDamagedBlock, OfIndexesIsMadeAnewByAScrub) {
  Damage(RocksDbTable::kIndexes);
  const std::atomic<bool> never{false};
  ScrubReport report;
  const absl::Status scrubbed = stack_->Scrub(
      /*mend=*/true, never,
      [&report](const ScrubReport& now) { report = now; });
  ASSERT_TRUE(scrubbed.ok()) << scrubbed;
  EXPECT_GE(report.unnamed, 1);
  EXPECT_LE(report.unnamed, kEntries / 4);
  EXPECT_EQ(Lost(), std::vector<int>());
  ExpectMendedBy({});
}

// Of texts and lists for people, which no lookup reads.
TEST_F(OneDamagedBlock, OfGraphsCostsNoEntry) {
  Damage(RocksDbTable::kGraphs);
  EXPECT_EQ(Lost(), std::vector<int>());
  const auto near = stack_->artifacts().Nearest(KeyOf(1).parts, "");
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_EQ(near->nearest->entry.compile_key, KeyOf(1).digest);
  ExpectMendedBy({});
}

TEST_F(DiskFaultTest, ATableThatDoesNotOpenCostsItsEntriesAndNoOthers) {
  // Three tables, of which the second loses its end.
  Open();
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 0) Open();
    ASSERT_TRUE(Insert(i).ok());
  }
  Open();
  stack_.reset();
  std::set<std::filesystem::path> tables;
  for (const auto& file :
       std::filesystem::directory_iterator(options_.folder)) {
    if (file.path().extension() == ".sst") tables.insert(file.path());
  }
  ASSERT_EQ(tables.size(), 3u);
  const auto damaged = *std::next(tables.begin());
  std::filesystem::resize_file(damaged,
                               std::filesystem::file_size(damaged) - 20);
  Open();
  stack_->Tidy();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Hits(i), i < 10 || i >= 20) << i;
  EXPECT_EQ(Counter("cache.put_aside"), 0);
}

}  // namespace
}  // namespace kiln

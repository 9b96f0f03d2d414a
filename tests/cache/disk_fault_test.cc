// A disk that is full, fails, or has lost a block: hits are served, writes refused
// until it takes them again, and damage costs what it hit.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/upkeep.h"
#include "proto/base/status.h"
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

TEST_F(DiskFaultTest, OneDamagedBlockCostsItsEntriesAndNoOthers) {
  constexpr int kEntries = 400;
  Open();
  for (int i = 0; i < kEntries; ++i) ASSERT_TRUE(Insert(i).ok());
  Open();
  stack_.reset();
  // One bit in the first half of the largest table: in a block of entries, which lie
  // in front of what is small.
  std::filesystem::path table;
  for (const auto& file :
       std::filesystem::directory_iterator(options_.folder)) {
    if (file.path().extension() == ".sst" &&
        (table.empty() || file.file_size() > std::filesystem::file_size(table)))
      table = file.path();
  }
  ASSERT_FALSE(table.empty());
  {
    std::fstream bytes(table, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<int64_t>(file_size(table)) / 4;
    bytes.seekg(at);
    const char byte = static_cast<char>(bytes.get() ^ 1);
    bytes.seekp(at);
    bytes.put(byte);
  }
  Open();
  stack_->Tidy();
  int lost = 0;
  for (int i = 0; i < kEntries; ++i) {
    if (Hits(i)) continue;
    ++lost;
    ASSERT_TRUE(Insert(i).ok());
    EXPECT_TRUE(Hits(i)) << i;
  }
  EXPECT_GE(lost, 1);
  EXPECT_LE(lost, 20);
  // A compaction gives the block up, and no more.
  const std::atomic<bool> never{false};
  const absl::Status compacted = stack_->Compact(never);
  EXPECT_TRUE(compacted.ok()) << compacted;
  for (int i = 0; i < kEntries; ++i) EXPECT_TRUE(Hits(i)) << i;
  EXPECT_EQ(Counter("cache.put_aside"), 0);
  EXPECT_EQ(stack_->artifacts().List({})->entries.size(),
            static_cast<size_t>(kEntries));
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

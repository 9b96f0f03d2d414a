// What is known of what is stored, and what goes when there is too much.
#include "cache/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/eviction_policy.h"
#include "cache/evictor.h"
#include "cache/rocksdb_blob_store.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

Digest Key(int number) { return Sha256Of(std::to_string(number)); }

std::vector<Digest> KeysOf(const std::vector<Evictable>& victims) {
  std::vector<Digest> keys;
  for (const Evictable& victim : victims) keys.push_back(victim.key);
  return keys;
}

TEST(ChooseVictims, WhatIsCheapToMakeAgainForItsSizeGoesFirst) {
  const std::vector<Evictable> stored = {
      {Key(1), 100, absl::Seconds(10)},
      {Key(2), 100, absl::Seconds(1)},
      {Key(3), 1000, absl::Seconds(2)},
  };
  EXPECT_TRUE(ChooseVictims(stored, {}).empty());
  EXPECT_EQ(KeysOf(ChooseVictims(stored, {.bytes = 1})),
            (std::vector<Digest>{Key(3)}));
  EXPECT_EQ(KeysOf(ChooseVictims(stored, {.bytes = 1001})),
            (std::vector<Digest>{Key(3), Key(2)}));
  EXPECT_EQ(KeysOf(ChooseVictims(stored, {.count = 2})),
            (std::vector<Digest>{Key(3), Key(2)}));
  EXPECT_EQ(ChooseVictims(stored, {.bytes = 1 << 20}).size(), 3u);
}

TEST(ChooseVictims, OfEquallyDearTheOneUsedLongerAgoGoesFirst) {
  const std::vector<Evictable> stored = {
      {Key(1), 100, absl::Seconds(1), absl::Hours(1)},
      {Key(2), 100, absl::Seconds(1), absl::Hours(30)},
      // Ten times as dear, and unused a hundred times as long.
      {Key(3), 100, absl::Seconds(10), absl::Hours(3000)},
  };
  EXPECT_EQ(KeysOf(ChooseVictims(stored, {.count = 3})),
            (std::vector<Digest>{Key(3), Key(2), Key(1)}));
}

TEST(ChooseVictims, StaleOnesGoBeforeAllOthersAndEqualsGoByKey) {
  std::vector<Evictable> stored = {{Key(1), 1}, {Key(2), 1}, {Key(3), 1}};
  stored[0].stale = true;
  stored[0].rebuild = absl::Hours(1);
  const auto order = KeysOf(ChooseVictims(stored, {.count = 3}));
  EXPECT_EQ(order[0], Key(1));
  std::swap(stored[1], stored[2]);
  EXPECT_EQ(KeysOf(ChooseVictims(stored, {.count = 3})), order);
}

class LedgerTest : public testing::Test {
 protected:
  explicit LedgerTest(StorageBudgets budgets = {})
      : ledger_(facts_, uses_, clock_, std::move(budgets)) {}

  void Add(int number, int64_t bytes, absl::Duration rebuild = absl::Seconds(1),
           const std::string& cache_namespace = "default",
           const std::string& build = "now") {
    clock_.Advance(absl::Seconds(1));
    StoredFacts facts;
    facts.bytes = bytes - Ledger::kBytesBeside;
    facts.rebuild = rebuild;
    facts.cache_namespace = cache_namespace;
    facts.build = Sha256Of(build);
    facts.compile_key = Sha256Of("compile key");
    ASSERT_TRUE(ledger_.Add(Key(number), facts).ok());
  }
  // What is left of 0 to `count` after a round.
  std::set<int> LeftAfterRound(StorageBudgets budgets, int count,
                               int64_t more_bytes = 0) {
    Evictor evictor(ledger_, std::move(budgets), [this](const Digest& key) {
      ledger_.Forget(key);
      return absl::OkStatus();
    });
    EXPECT_TRUE(evictor.Round(more_bytes, never_).ok());
    std::set<int> left;
    for (int i = 0; i < count; ++i)
      if (ledger_.Knows(Key(i))) left.insert(i);
    return left;
  }

  const std::atomic<bool> never_{false};
  FakeClock clock_;
  MemoryRows facts_, uses_;
  Ledger ledger_;
};

TEST_F(LedgerTest, CountsWhatIsStoredByKindAndNamespace) {
  Add(1, 6400, absl::Seconds(1), "a");
  Add(2, 12800, absl::Seconds(1), "b");
  Add(2, 6400, absl::Seconds(1), "b");  // replaced
  ASSERT_TRUE(
      ledger_.Add(Key(3), {.kind = StoredKind::kUnit, .bytes = 128}).ok());
  EXPECT_EQ(ledger_.totals().entries, 2);
  EXPECT_EQ(ledger_.totals().entry_bytes, 12800);
  EXPECT_EQ(ledger_.totals().units, 1);
  EXPECT_EQ(ledger_.totals().unit_bytes, 640);
  EXPECT_EQ(ledger_.BytesOfNamespaces().at("a"), 6400);
  ledger_.Forget(Key(1));
  EXPECT_EQ(ledger_.BytesOfNamespaces().count("a"), 0u);
  EXPECT_EQ(ledger_.totals().entries, 1);
  EXPECT_FALSE(facts_.Get(Key(1)).ok());
}

TEST_F(LedgerTest, BytesOverTheBudgetGoUntilNineteenTwentiethsAreLeft) {
  for (int i = 0; i < 40; ++i) Add(i, 6400);
  EXPECT_EQ(LeftAfterRound({.bytes = 40 * 6400}, 40).size(), 40u);
  // Those stored first were unused the longest.
  const auto left = LeftAfterRound({.bytes = 20 * 6400}, 40);
  EXPECT_EQ(left.size(), 19u);
  EXPECT_EQ(*left.begin(), 21);
}

TEST_F(LedgerTest, NumbersAndNamespacesHaveBudgetsOfTheirOwn) {
  for (int i = 0; i < 20; ++i)
    Add(i, 6400, absl::Seconds(1), i % 2 == 0 ? "a" : "b");
  auto left = LeftAfterRound({.namespaces = {{"a", 5 * 6400}}}, 20);
  EXPECT_EQ(left.size(), 14u);
  for (const int even : {0, 2, 4, 6, 8, 10}) EXPECT_EQ(left.count(even), 0u);
  // "*" is for those that are not named.
  left =
      LeftAfterRound({.namespaces = {{"a", 100 * 6400}, {"*", 2 * 6400}}}, 20);
  EXPECT_EQ(left.size(), 5u);
  EXPECT_EQ(LeftAfterRound({.entries = 3}, 20).size(), 3u);
}

TEST_F(LedgerTest, WhatWasNotUsedForTooLongGoesWhateverTheWallsClockSays) {
  Add(0, 6400);
  Add(1, 6400);
  clock_.Advance(absl::Hours(23));
  clock_.Jump(absl::Hours(24 * 30));
  ledger_.Touch(Key(1));
  EXPECT_EQ(LeftAfterRound({.unused = absl::Hours(24)}, 2).size(), 2u);
  clock_.Advance(absl::Hours(2));
  EXPECT_EQ(LeftAfterRound({.unused = absl::Hours(24)}, 2), (std::set<int>{1}));
}

TEST_F(LedgerTest, PinnedRecordsStayAndOfBuildsThatAreGoneNoneDoes) {
  Add(0, 6400, absl::Hours(1), "default", "before");
  Add(1, 6400);
  Add(2, 6400);
  Add(3, 6400, absl::ZeroDuration());
  ledger_.NameLiveBuild(Sha256Of("now"));
  ASSERT_TRUE(ledger_.SetPinned(Key(3), true).ok());
  EXPECT_EQ(LeftAfterRound({}, 4, /*more_bytes=*/1), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(LeftAfterRound({.bytes = 64}, 4), (std::set<int>{3}));
  ASSERT_TRUE(ledger_.SetPinned(Key(3), false).ok());
  EXPECT_TRUE(LeftAfterRound({.bytes = 64}, 4).empty());
}

// Made-up builds and namespaces take nothing from those that come later.
TEST_F(LedgerTest, ANewNamespaceHasItsBudgetHoweverManyThereWere) {
  constexpr int kMany = 70000;  // more than 16 bits count
  for (int i = 0; i < kMany; ++i) {
    Add(i, 640, absl::Seconds(1), absl::StrCat("team-", i),
        absl::StrCat("build ", i));
    if (i >= 1000) ledger_.Forget(Key(i - 1000));
  }
  ledger_.NameLiveBuild(Sha256Of("now"));
  for (int i = 0; i < 10; ++i)
    Add(kMany + i, 6400, absl::Seconds(1), "team-new");
  EXPECT_EQ(ledger_.BytesOfNamespaces().at("team-new"), 10 * 6400);
  LeftAfterRound({.namespaces = {{"team-new", 5 * 6400}}}, 0);
  EXPECT_LE(ledger_.BytesOfNamespaces().at("team-new"), 5 * 6400);
  EXPECT_GE(ledger_.BytesOfNamespaces().at("team-new"), 4 * 6400);
  // The others' are of builds that are gone, and go before any of this one.
  LeftAfterRound({}, 0, /*more_bytes=*/500 * 640);
  EXPECT_GE(ledger_.BytesOfNamespaces().at("team-new"), 4 * 6400);
  EXPECT_EQ(ledger_.totals().entries, 504);
}

TEST_F(LedgerTest, AsManyNamespacesAsThereAreHaveBytesOfTheirOwn) {
  constexpr int kMany = 66000;
  for (int i = 0; i < kMany; ++i)
    Add(i, 640, absl::Seconds(1), absl::StrCat("team-", i));
  EXPECT_EQ(ledger_.BytesOfNamespaces().size(), static_cast<size_t>(kMany));
  EXPECT_EQ(ledger_.BytesOfNamespaces().at("team-65999"), 640);
}

class PinnedTest : public LedgerTest {
 protected:
  absl::Status Pin(int number, bool pinned = true) {
    return ledger_.SetPinned(Key(number), pinned);
  }
  PinnedTest()
      : LedgerTest({.bytes = 30 * 6400,
                    .entries = 40,
                    .namespaces = {{"a", 10 * 6400}}}) {}
};

TEST_F(PinnedTest, HalfOfANamespacesBudgetIsTheMost) {
  for (int i = 0; i < 8; ++i) Add(i, 6400, absl::Seconds(1), "a");
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Pin(i).ok());
  const absl::Status refused = Pin(5);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kTooLarge) << refused;
  EXPECT_FALSE(ledger_.IsPinned(Key(5)));
  EXPECT_EQ(ledger_.pinned(), 5);
  // One that is not there any more, or is let go, makes room.
  ledger_.Forget(Key(0));
  EXPECT_TRUE(Pin(5).ok());
  EXPECT_FALSE(Pin(6).ok());
  ASSERT_TRUE(Pin(1, false).ok());
  EXPECT_TRUE(Pin(6).ok());
  EXPECT_FALSE(Pin(7).ok());
  // So eviction keeps the budget.
  LeftAfterRound({.namespaces = {{"a", 6 * 6400}}}, 8);
  EXPECT_LE(ledger_.BytesOfNamespaces().at("a"), 6 * 6400);
}

TEST_F(PinnedTest, HalfOfTheCacheIsTheMostOfAllNamespaces) {
  for (int i = 0; i < 20; ++i)
    Add(i, 6400, absl::Seconds(1), absl::StrCat("b", i));
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Pin(i).ok());
  EXPECT_EQ(ReasonOf(Pin(15)), ErrorReason::kTooLarge);
  for (int i = 100; i < 130; ++i) Add(i, 640, absl::Seconds(1), "c");
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(Pin(i, false).ok());
  for (int i = 100; i < 120; ++i) ASSERT_TRUE(Pin(i).ok());
  EXPECT_EQ(ReasonOf(Pin(120)), ErrorReason::kTooLarge);  // by their number
}

TEST_F(PinnedTest, ARecordThatGrowsBeyondWhatMayBePinnedIsNotPinned) {
  Add(0, 6400, absl::Seconds(1), "a");
  ASSERT_TRUE(Pin(0).ok());
  Add(0, 2 * 6400, absl::Seconds(1), "a");
  EXPECT_TRUE(ledger_.IsPinned(Key(0)));
  Add(0, 6 * 6400, absl::Seconds(1), "a");
  EXPECT_FALSE(ledger_.IsPinned(Key(0)));
  EXPECT_EQ(ledger_.pinned(), 0);
  ASSERT_TRUE(ledger_.WriteUses().ok());
  Ledger next(facts_, uses_, clock_);
  ASSERT_TRUE(next.LoadRows(never_).ok());
  EXPECT_FALSE(next.IsPinned(Key(0)));
}

TEST_F(LedgerTest, ManyAreLookedAtInParts) {
  constexpr int kMany = 60000;
  for (int i = 0; i < kMany; ++i) Add(i, 640);
  const auto left = LeftAfterRound({.entries = kMany / 2}, kMany);
  EXPECT_LE(left.size(), static_cast<size_t>(kMany / 2));
  EXPECT_GE(left.size(), static_cast<size_t>(kMany / 2 / 20 * 19));
  // Each part gave the worst that it had: most of the younger half stayed.
  const auto younger = std::distance(left.lower_bound(kMany / 2), left.end());
  EXPECT_GE(younger, static_cast<int64_t>(left.size()) * 8 / 10);
}

TEST_F(LedgerTest, ComesBackAfterARestart) {
  const std::string folder = testing::TempDir() + "/ledger_restart";
  std::filesystem::remove_all(folder);
  const auto db = RocksDb::Open(folder);
  ASSERT_TRUE(db.ok()) << db.status();
  const auto facts = (*db)->Rows(RocksDbTable::kLedger);
  const auto uses = (*db)->Rows(RocksDbTable::kUses);
  StoredFacts entry;
  entry.bytes = 1000;
  entry.rebuild = absl::Milliseconds(1500);
  entry.cache_namespace = "a";
  entry.build = Sha256Of("build");
  entry.compile_key = Sha256Of("key");
  absl::Time used;
  {
    Ledger ledger(*facts, *uses, clock_);
    for (const int i : {1, 2, 3}) ASSERT_TRUE(ledger.Add(Key(i), entry).ok());
    clock_.Advance(absl::Hours(1));
    ledger.Touch(Key(1));
    used = ledger.LastUsed(Key(1));
    ASSERT_TRUE(ledger.WriteUses().ok());
    ASSERT_TRUE(ledger.SetPinned(Key(2), true).ok());
  }
  clock_.Advance(absl::Hours(5));
  Ledger ledger(*facts, *uses, clock_);
  EXPECT_FALSE(ledger.Knows(Key(1)));
  ASSERT_TRUE(ledger.LoadRows(never_).ok());
  EXPECT_EQ(ledger.LastUsed(Key(1)), used);
  EXPECT_TRUE(ledger.IsPinned(Key(2)));
  EXPECT_EQ(ledger.pinned(), 1);
  const auto read = ledger.FactsOf(Key(1));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rebuild, entry.rebuild);
  EXPECT_EQ(read->compile_key, entry.compile_key);
  EXPECT_EQ(ledger.BytesOfNamespaces().at("a"), ledger.totals().bytes());
  // Whose record is not there any more is forgotten, with its use.
  EXPECT_TRUE(ledger.MarkSeen(Key(1)));
  EXPECT_FALSE(ledger.MarkSeen(Key(9)));
  ledger.ForgetUnseen();
  EXPECT_EQ(ledger.totals().entries, 1);
  EXPECT_FALSE(uses->Get(Key(2)).ok());
}

}  // namespace
}  // namespace kiln

// One bit flipped in each of ten thousand records: all are found, none is served.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "cache/rocksdb_blob_store.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

CompileKey KeyOf(int number) {
  return KeyNamed(absl::StrCat("record ", number));
}
Digest UnitOf(int number) { return Sha256Of(absl::StrCat("unit ", number)); }

class FlippedBits : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(options_.folder); }
  void Fill(int records) {
    const auto stack = Open();
    for (int i = 0; i < records; ++i) {
      NewEntry entry;
      entry.key = KeyOf(i);
      entry.artifact.set_artifact(absl::StrCat("artifact ", i));
      ASSERT_TRUE(stack->artifacts().Insert(std::move(entry)).ok());
    }
  }
  std::unique_ptr<CacheStack> Open() {
    auto stack = CacheStack::Open(options_, keys_, clock_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return *std::move(stack);
  }
  static int64_t Counter(const CacheStack& stack, const std::string& name) {
    const auto rows = stack.Counters();
    return std::map<std::string, int64_t>(rows.begin(), rows.end()).at(name);
  }
  // One bit of each record, behind the cache's back.
  void FlipOneInEach(RocksDbTable table, int records) {
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
    ASSERT_EQ(keys.size(), static_cast<size_t>(records));
    std::mt19937_64 random(20260101);
    for (const Digest& key : keys) {
      std::string record = **store->Get(key);
      const size_t bit = random() % (record.size() * 8);
      record[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      ASSERT_TRUE(store->Put(key, record).ok());
    }
  }

  const CacheOptions options_ = {
      .folder = testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name(),
      .memory_bytes = 0,
      .tidy_every = absl::ZeroDuration()};
  const std::shared_ptr<const KeyRing> keys_ =
      std::make_shared<KeyRing>(*SigningKey::Generate());
  const FakeClock clock_;
};

TEST_F(FlippedBits, OfEntriesAreFoundByLookupsAndNoneIsServed) {
  constexpr int kRecords = 10000;
  Fill(kRecords);
  FlipOneInEach(RocksDbTable::kEntries, kRecords);
  const auto stack = Open();
  int served = 0, found = 0;
  for (int i = 0; i < kRecords; ++i) {
    const CacheAnswer answer =
        stack->artifacts().Lookup(KeyOf(i).digest, {{}, {}});
    served += answer.hit() ? 1 : 0;
    found += answer.outcome == CacheOutcome::kBroken ? 1 : 0;
  }
  EXPECT_EQ(served, 0);
  EXPECT_EQ(found, kRecords);
  EXPECT_EQ(Counter(*stack, "cache.broken"), kRecords);
}

TEST_F(FlippedBits, OfUnitsAreFoundByLookupsAndNoneIsBuiltIn) {
  constexpr int kRecords = 10000;
  {
    const auto stack = Open();
    for (int i = 0; i < kRecords; ++i) {
      wire::ObjectCode object;
      object.set_image(absl::StrCat("object ", i));
      ASSERT_TRUE(
          stack->units().Insert(UnitOf(i), object, absl::Seconds(1)).ok());
    }
  }
  FlipOneInEach(RocksDbTable::kUnits, kRecords);
  const auto stack = Open();
  int served = 0;
  for (int i = 0; i < kRecords; ++i)
    served += stack->units().Lookup(UnitOf(i)).has_value() ? 1 : 0;
  EXPECT_EQ(served, 0);
  EXPECT_EQ(Counter(*stack, "cache.broken"), kRecords);
}

TEST_F(FlippedBits, OfGraphsAreFoundByAScrubAndExplainNothing) {
  constexpr int kRecords = 1000;
  {
    const auto stack = Open();
    for (int i = 0; i < kRecords; ++i) {
      NewEntry entry;
      entry.key = KeyOf(i);
      entry.artifact.set_artifact("an artifact");
      entry.graph_text = absl::StrCat("line ", i);
      ASSERT_TRUE(stack->artifacts().Insert(std::move(entry)).ok());
    }
  }
  // The lines of each, and its keys.
  FlipOneInEach(RocksDbTable::kGraphs, 2 * kRecords);
  const auto stack = Open();
  const auto nearest =
      stack->artifacts().Nearest(KeyOf(-1).parts, "line of another");
  ASSERT_TRUE(nearest.ok()) << nearest.status();
  ASSERT_TRUE(nearest->nearest.has_value());
  EXPECT_EQ(nearest->nearest->graph_difference, "");
  const std::atomic<bool> never{false};
  ScrubReport report;
  const auto note = [&report](const ScrubReport& found) { report = found; };
  ASSERT_TRUE(stack->Scrub(/*mend=*/true, never, note).ok());
  // One was asked for above, and dropped.
  EXPECT_EQ(report.damaged, 2 * kRecords - 1);
  ASSERT_TRUE(stack->Scrub(/*mend=*/false, never, note).ok());
  EXPECT_EQ(report.damaged, 0);
}

TEST_F(FlippedBits, OfTuningAreFoundAtTheStartAndNoneIsInForce) {
  constexpr int kRecords = 1000;
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64-v3");
  {
    const auto stack = Open();
    for (int i = 0; i < kRecords; ++i) {
      wire::TuningDecision decision;
      decision.set_key(absl::StrCat("kernel ", i));
      decision.set_choice("rows=4");
      ASSERT_TRUE(stack->tuning().Insert(target, decision).ok());
    }
  }
  EXPECT_EQ(Open()->tuning().size(), kRecords);
  FlipOneInEach(RocksDbTable::kTuning, kRecords);
  const auto stack = Open();
  EXPECT_EQ(stack->tuning().size(), 0);
  EXPECT_TRUE(stack->tuning().DecisionsFor(target)->empty());
  EXPECT_EQ(Counter(*stack, "cache.broken"), kRecords);
}

TEST_F(FlippedBits, OfIndexesAreFoundByAScrubWhichMakesThemAnew) {
  constexpr int kRecords = 1000;
  Fill(kRecords);
  FlipOneInEach(RocksDbTable::kIndexes, kRecords);
  const auto stack = Open();
  const std::atomic<bool> never{false};
  ScrubReport report;
  const auto note = [&report](const ScrubReport& found) { report = found; };
  ASSERT_TRUE(stack->Scrub(/*mend=*/false, never, note).ok());
  EXPECT_EQ(report.damaged, kRecords);
  EXPECT_EQ(report.unnamed, kRecords);
  EXPECT_EQ(report.records, 3 * kRecords);  // and the keys of each graph
  ASSERT_TRUE(stack->Scrub(/*mend=*/true, never, note).ok());
  EXPECT_EQ(report.damaged, kRecords);
  EXPECT_EQ(report.unnamed, kRecords);
  ASSERT_TRUE(stack->Scrub(/*mend=*/false, never, note).ok());
  EXPECT_EQ(report.damaged + report.unnamed + report.dangling, 0);
  int served = 0;
  for (int i = 0; i < kRecords; ++i)
    served +=
        stack->artifacts().Lookup(KeyOf(i).digest, {{}, {}}).hit() ? 1 : 0;
  EXPECT_EQ(served, kRecords);
}

}  // namespace
}  // namespace kiln

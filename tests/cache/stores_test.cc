// What each layer adds to the store below it.
#include <gtest/gtest.h>

#include "cache/bounded_blob_store.h"
#include "cache/eviction_policy.h"
#include "cache/memory_blob_store.h"
#include "cache/metered_blob_store.h"
#include "cache/tiered_blob_store.h"
#include "cache/usage_log.h"
#include "cache/verified_blob_store.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "tests/support/faulty_blob_store.h"

namespace kiln {
namespace {

Digest Key(int number) { return Sha256Of(std::to_string(number)); }

TEST(ChooseVictims, TheLeastRecentlyUsedGoUntilNineTenthsAreLeft) {
  std::vector<Evictable> entries;
  for (int i = 0; i < 10; ++i) {
    entries.push_back({Key(i), 10, absl::FromUnixSeconds(100 - i)});
  }
  EXPECT_TRUE(ChooseVictims(entries, 100).empty());
  EXPECT_EQ(ChooseVictims(entries, 99), (std::vector<Digest>{Key(9), Key(8)}));
  EXPECT_EQ(ChooseVictims(entries, 0).size(), 10u);
}

TEST(ChooseVictims, EqualTimesGoByKey) {
  std::vector<Evictable> entries = {{Key(1), 10, {}}, {Key(2), 10, {}}};
  const auto victims = ChooseVictims(entries, 19);
  std::swap(entries[0], entries[1]);
  EXPECT_EQ(ChooseVictims(entries, 19), victims);
}

class BoundedTest : public testing::Test {
 protected:
  void Put(int number, int bytes) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(bounded_.Put(Key(number), std::string(bytes, 'x')).ok());
  }
  bool Has(int number) { return bounded_.Get(Key(number)).ok(); }

  FakeClock clock_;
  MemoryBlobStore inner_;
  UsageLog usage_{nullptr, clock_};
  BoundedBlobStore bounded_{inner_, usage_, 100};
};

TEST_F(BoundedTest, TheLeastRecentlyUsedGivesWay) {
  Put(1, 40);
  Put(2, 40);
  clock_.Advance(absl::Seconds(1));
  usage_.Touch(Key(1));
  Put(3, 40);
  EXPECT_TRUE(Has(1));
  EXPECT_FALSE(Has(2));
  EXPECT_TRUE(Has(3));
  EXPECT_EQ(bounded_.bytes(), 80);
  EXPECT_EQ(bounded_.evicted(), 1);
}

TEST_F(BoundedTest, ReplacingCountsOnceAndDeletingFrees) {
  Put(1, 40);
  Put(1, 50);
  EXPECT_EQ(bounded_.bytes(), 50);
  EXPECT_TRUE(bounded_.Delete(Key(1)).ok());
  EXPECT_EQ(bounded_.bytes(), 0);
  EXPECT_EQ(bounded_.blobs(), 0);
}

TEST_F(BoundedTest, ABlobOverTheBudgetIsRefused) {
  EXPECT_EQ(ReasonOf(bounded_.Put(Key(1), std::string(101, 'x'))),
            ErrorReason::kTooLarge);
}

TEST_F(BoundedTest, WhatWasThereBeforeIsBroughtWithinTheBudget) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(inner_.Put(Key(i), std::string(40, 'x')).ok());
  }
  ASSERT_TRUE(bounded_.Load().ok());
  EXPECT_EQ(bounded_.bytes(), 80);
}

TEST(UsageLog, TimesComeBackAfterARestartAndStaleOnesAreDropped) {
  FakeClock clock;
  MemoryBlobStore store;
  absl::Time used;
  {
    UsageLog log(&store, clock);
    log.Touch(Key(1));
    log.Touch(Key(2));
    used = clock.Now();
  }
  clock.Advance(absl::Hours(5));
  UsageLog log(&store, clock);
  ASSERT_TRUE(log.Load().ok());
  EXPECT_EQ(log.LastUsed(Key(1)), used);
  log.Retain({Key(2)});
  EXPECT_EQ(log.LastUsed(Key(1)), absl::InfinitePast());
  EXPECT_TRUE(absl::IsNotFound(store.Get(Key(1)).status()));
  EXPECT_EQ(log.LastUsed(Key(2)), used);
}

TEST(UsageLog, WritesAKeyAtMostOnceAnHour) {
  FakeClock clock;
  MemoryBlobStore inner;
  MeteredBlobStore store(inner);
  UsageLog log(&store, clock);
  for (int i = 0; i < 100; ++i) log.Touch(Key(1));
  EXPECT_EQ(store.counts().puts, 1);
  clock.Advance(absl::Hours(1));
  log.Touch(Key(1));
  EXPECT_EQ(store.counts().puts, 2);
}

TEST(TieredBlobStore, WhatFarHasNearLearns) {
  MemoryBlobStore near, far;
  TieredBlobStore tiered(near, far);
  ASSERT_TRUE(far.Put(Key(1), "bytes").ok());
  EXPECT_EQ(**tiered.Get(Key(1)), "bytes");
  EXPECT_EQ(**near.Get(Key(1)), "bytes");
}

TEST(TieredBlobStore, NearNeverHasWhatFarRefused) {
  MemoryBlobStore near, inner;
  FaultyBlobStore far(inner);
  TieredBlobStore tiered(near, far);
  ASSERT_TRUE(tiered.Put(Key(1), "old").ok());
  far.full = true;
  EXPECT_EQ(ReasonOf(tiered.Put(Key(1), "new")), ErrorReason::kStorage);
  EXPECT_EQ(**tiered.Get(Key(1)), "old");
  EXPECT_EQ(**far.Get(Key(1)), "old");
}

TEST(TieredBlobStore, NearThatRefusesLosesTheOldBytesToo) {
  MemoryBlobStore inner, far;
  FaultyBlobStore near(inner);
  TieredBlobStore tiered(near, far);
  ASSERT_TRUE(tiered.Put(Key(1), "old").ok());
  near.full = true;
  ASSERT_TRUE(tiered.Put(Key(1), "new").ok());
  EXPECT_EQ(**tiered.Get(Key(1)), "new");
}

class VerifiedTest : public testing::Test {
 protected:
  MemoryBlobStore inner_, quarantine_;
  VerifiedBlobStore verified_{inner_, quarantine_, *SigningKey::Generate(), {}};
};

TEST_F(VerifiedTest, OneFlippedBitIsAnErrorOnceAQuarantinedRecordAndThenAMiss) {
  ASSERT_TRUE(verified_.Put(Key(1), "payload").ok());
  std::string record = **inner_.Get(Key(1));
  const size_t bits = record.size() * 8;
  for (size_t bit = 0; bit < bits; ++bit) {
    std::string flipped = record;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    ASSERT_TRUE(inner_.Put(Key(1), flipped).ok());
    EXPECT_FALSE(verified_.Get(Key(1)).ok()) << bit;
    EXPECT_TRUE(absl::IsNotFound(verified_.Get(Key(1)).status()));
    EXPECT_EQ(**quarantine_.Get(Key(1)), flipped);
  }
  EXPECT_EQ(verified_.broken(), static_cast<int64_t>(bits));
  ASSERT_TRUE(verified_.Put(Key(1), "again").ok());
  EXPECT_EQ(**verified_.Get(Key(1)), "again");
}

TEST(MeteredBlobStore, CountsWhatPasses) {
  MemoryBlobStore inner;
  FaultyBlobStore faulty(inner);
  MeteredBlobStore metered(faulty);
  ASSERT_TRUE(metered.Put(Key(1), "four").ok());
  ASSERT_TRUE(metered.Get(Key(1)).ok());
  ASSERT_FALSE(metered.Get(Key(2)).ok());
  faulty.full = true;
  ASSERT_FALSE(metered.Put(Key(1), "x").ok());
  ASSERT_TRUE(metered.Delete(Key(1)).ok());
  const StoreCounts counts = metered.counts();
  EXPECT_EQ(counts.gets, 2);
  EXPECT_EQ(counts.found, 1);
  EXPECT_EQ(counts.puts, 1);
  EXPECT_EQ(counts.failures, 1);
  EXPECT_EQ(counts.deletes, 1);
  EXPECT_EQ(counts.bytes_read, 4);
  EXPECT_EQ(counts.bytes_written, 4);
}

}  // namespace
}  // namespace kiln

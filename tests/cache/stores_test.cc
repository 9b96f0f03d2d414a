// What each layer adds to the store below it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/bounded_blob_store.h"
#include "cache/lru_blob_store.h"
#include "cache/memory_blob_store.h"
#include "cache/metered_blob_store.h"
#include "cache/tiered_blob_store.h"
#include "cache/verified_blob_store.h"
#include "proto/base/bounded_log.h"
#include "proto/base/log.h"
#include "proto/base/status.h"
#include "tests/support/faulty_blob_store.h"

namespace kiln {
namespace {

Digest Key(int number) { return Sha256Of(std::to_string(number)); }

TEST(LruBlobStore, TheLeastRecentlyUsedGivesWay) {
  LruBlobStore lru(100);
  ASSERT_TRUE(lru.Put(Key(1), std::string(40, 'x')).ok());
  ASSERT_TRUE(lru.Put(Key(2), std::string(40, 'x')).ok());
  ASSERT_TRUE(lru.Get(Key(1)).ok());
  ASSERT_TRUE(lru.Put(Key(3), std::string(40, 'x')).ok());
  EXPECT_TRUE(lru.Get(Key(1)).ok());
  EXPECT_FALSE(lru.Get(Key(2)).ok());
  EXPECT_TRUE(lru.Get(Key(3)).ok());
  EXPECT_EQ(lru.bytes(), 80);
  ASSERT_TRUE(lru.Put(Key(1), std::string(50, 'x')).ok());
  EXPECT_EQ(lru.bytes(), 90);
  EXPECT_EQ(ReasonOf(lru.Put(Key(4), std::string(101, 'x'))),
            ErrorReason::kTooLarge);
}

class BoundedTest : public testing::Test {
 protected:
  MemoryBlobStore inner_;
  BoundedBlobStore bounded_{inner_, 100};
};

TEST_F(BoundedTest, StaysWithinItsBudgetHoweverMuchIsPut) {
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(bounded_.Put(Key(i), std::string(30, 'x')).ok());
    EXPECT_LE(bounded_.bytes(), 100);
  }
  EXPECT_EQ(bounded_.blobs(), 3);
}

TEST_F(BoundedTest, ReplacingCountsOnceAndDeletingFrees) {
  ASSERT_TRUE(bounded_.Put(Key(1), std::string(40, 'x')).ok());
  ASSERT_TRUE(bounded_.Put(Key(1), std::string(50, 'x')).ok());
  EXPECT_EQ(bounded_.bytes(), 50);
  EXPECT_TRUE(bounded_.Delete(Key(1)).ok());
  EXPECT_EQ(bounded_.bytes(), 0);
  EXPECT_EQ(bounded_.blobs(), 0);
}

TEST_F(BoundedTest, ABlobOverTheBudgetIsRefused) {
  EXPECT_EQ(ReasonOf(bounded_.Put(Key(1), std::string(101, 'x'))),
            ErrorReason::kTooLarge);
}

TEST_F(BoundedTest, WhatWasThereBeforeCountsOnceItWasCounted) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(inner_.Put(Key(i), std::string(40, 'x')).ok());
  }
  ASSERT_TRUE(bounded_.Recount().ok());
  EXPECT_EQ(bounded_.bytes(), 200);
  ASSERT_TRUE(bounded_.Put(Key(9), "x").ok());
  EXPECT_LE(bounded_.bytes(), 100);
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
  VerifiedBlobStore verified_{
      inner_, quarantine_, std::make_shared<KeyRing>(*SigningKey::Generate())};
};

// A revocation makes as many of them as there are records.
TEST_F(VerifiedTest, AThousandBrokenRecordsAreAFewLinesAndACount) {
  LogCounted(SteadyIn(absl::Seconds(61)));  // what other tests said
  std::vector<std::string> lines;
  ASSERT_TRUE(ConfigureLog({.sink = [&lines](absl::string_view line) {
                lines.emplace_back(line);
              }}).ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(inner_.Put(Key(i), "no record").ok());
    EXPECT_FALSE(verified_.Get(Key(i)).ok());
  }
  LogCounted(SteadyIn(absl::Seconds(122)));
  ASSERT_TRUE(ConfigureLog({}).ok());
  ASSERT_EQ(lines.size(), static_cast<size_t>(kMostBoundedLines) + 1);
  EXPECT_TRUE(absl::StrContains(
      lines[0], absl::StrCat("cache.quarantined from=", Key(0).ShortHex())))
      << lines[0];
  EXPECT_TRUE(absl::StrContains(
      lines.back(),
      absl::StrCat("cache.quarantined more=", 1000 - kMostBoundedLines)))
      << lines.back();
}

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

// Many threads on one cache; TSan watches.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cache/bounded_blob_store.h"
#include "cache/cache_stack.h"
#include "cache/memory_blob_store.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/tiered_blob_store.h"
#include "tests/support/key_named.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

TEST(CacheThreads, ManyMayLookUpInsertListAndPurgeAtOnce) {
  const RealClock clock;
  // Small budgets, so that eviction is at work as well.
  const CacheOptions options = {.budgets = {.bytes = 6000},
                                .memory_bytes = 1500,
                                .tidy_every = absl::Milliseconds(1)};
  const auto stack = CacheStack::Open(
      options, std::make_shared<KeyRing>(*SigningKey::Generate()), clock);
  ASSERT_TRUE(stack.ok()) << stack.status();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 100; ++i) {
        NewEntry entry;
        entry.key = KeyNamed(std::to_string(i % 10));
        const Digest key = entry.key.digest;
        entry.artifact.set_artifact(std::string(100, 'x'));
        EXPECT_TRUE((*stack)->artifacts().Insert(std::move(entry)).ok());
        const CacheAnswer answer = (*stack)->artifacts().Lookup(key, {{}, {}});
        EXPECT_TRUE(!answer.hit() || answer.artifact.artifact().size() == 100);
        wire::ObjectCode object;
        object.set_image("image");
        EXPECT_TRUE((*stack)->units().Insert(key, object, {}).ok());
        (*stack)->units().Lookup(key);
        if (i % 20 == thread) {
          EXPECT_TRUE((*stack)->artifacts().List({}).ok());
          EXPECT_TRUE(
              (*stack)->artifacts().Purge({.key_prefix_hex = "0"}).ok());
          (*stack)->Counters();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CacheThreads, TheSumOfABoundedStoreIsThatOfWhatItHolds) {
  MemoryBlobStore inner;
  BoundedBlobStore bounded(inner, 1 << 20);
  const Digest key = Sha256Of("one key");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&bounded, key, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string bytes(100 * t + i % 7, 'x');
        EXPECT_TRUE(i % 2 == 0 ? bounded.Put(key, bytes).ok()
                               : bounded.Delete(key).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t held = 0;
  ASSERT_TRUE(inner
                  .Scan([&held](const Digest&, int64_t bytes) {
                    held += bytes;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(bounded.bytes(), held);
}

// One of those who write at once writes for all: RocksDB merges their batches.
TEST(CacheThreads, ManyMayWriteToADatabaseAtOnce) {
  const ShortFolder folder;
  const auto db = RocksDb::Open(folder.path() + "/db",
                                {.sync_every = absl::ZeroDuration()});
  ASSERT_TRUE(db.ok()) << db.status();
  const auto store = (*db)->Store(RocksDbTable::kEntries);
  const auto bytes_of = [](int t, int i) {
    return std::string(100 * t + i, static_cast<char>('a' + t));
  };
  const auto key_of = [](int t, int i) {
    return Sha256Of(std::to_string(1000 * t + i));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(store->Put(key_of(t, i), bytes_of(t, i)).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t) {
    for (int i = 0; i < 100; ++i) {
      const auto found = store->Get(key_of(t, i));
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(**found, bytes_of(t, i));
    }
  }
}

TEST(CacheThreads, AFetchDoesNotReviveWhatWasDeletedMeanwhile) {
  MemoryBlobStore near;
  MemoryBlobStore far;
  TieredBlobStore tiers(near, far);
  const Digest key = Sha256Of("one key");
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(tiers.Put(key, "bytes").ok());
    ASSERT_TRUE(near.Delete(key).ok());
    // It may find the bytes or not, but leave none behind.
    std::thread fetch([&tiers, key] { (void)tiers.Get(key).ok(); });
    EXPECT_TRUE(tiers.Delete(key).ok());
    fetch.join();
    ASSERT_FALSE(near.Get(key).ok()) << i;
  }
}

}  // namespace
}  // namespace kiln

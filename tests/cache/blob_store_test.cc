// One suite for every BlobStore: each keeps the promises of blob_store.h.
#include "cache/blob_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cache/bounded_blob_store.h"
#include "cache/forgetting_blob_store.h"
#include "cache/lru_blob_store.h"
#include "cache/memory_blob_store.h"
#include "cache/metered_blob_store.h"
#include "cache/rocksdb_blob_store.h"
#include "cache/tiered_blob_store.h"
#include "cache/verified_blob_store.h"
#include "proto/base/clock.h"

namespace kiln {
namespace {

// A folder of this test alone, empty at first.
std::string NewFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + test->name();
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

// A store with whatever it stands on.
struct Standing {
  FakeClock clock;
  MemoryBlobStore near, far, quarantine;
  MemoryRows facts, uses;
  Ledger ledger{facts, uses, clock};
  std::unique_ptr<RocksDb> db;
  std::unique_ptr<BlobStore> store;
};

using Maker = void (*)(Standing&);

void MakeMemory(Standing& s) { s.store = std::make_unique<MemoryBlobStore>(); }
void MakeRocksDb(Standing& s) {
  s.db = *RocksDb::Open(NewFolder());
  s.store = s.db->Store(RocksDbTable::kEntries);
}
void MakeTiered(Standing& s) {
  s.store = std::make_unique<TieredBlobStore>(s.near, s.far);
}
void MakeMetered(Standing& s) {
  s.store = std::make_unique<MeteredBlobStore>(s.far);
}
void MakeBounded(Standing& s) {
  s.store = std::make_unique<BoundedBlobStore>(s.far, 1 << 20);
}
void MakeLru(Standing& s) { s.store = std::make_unique<LruBlobStore>(1 << 20); }
void MakeForgetting(Standing& s) {
  s.store = std::make_unique<ForgettingBlobStore>(s.far, s.ledger);
}
void MakeVerified(Standing& s) {
  s.store = std::make_unique<VerifiedBlobStore>(
      s.far, s.quarantine, std::make_shared<KeyRing>(*SigningKey::Generate()));
}

class BlobStoreConformance : public testing::TestWithParam<Maker> {
 protected:
  void SetUp() override { GetParam()(standing_); }
  BlobStore& store() { return *standing_.store; }
  Standing standing_;
};

const Digest kA = Sha256Of("a");
const Digest kB = Sha256Of("b");

TEST_P(BlobStoreConformance, WhatIsPutIsGotAndReplaced) {
  EXPECT_TRUE(absl::IsNotFound(store().Get(kA).status()));
  ASSERT_TRUE(store().Put(kA, "one").ok());
  EXPECT_EQ(**store().Get(kA), "one");
  ASSERT_TRUE(store().Put(kA, std::string(20000, 'x')).ok());
  EXPECT_EQ((*store().Get(kA))->size(), 20000u);
  EXPECT_TRUE(absl::IsNotFound(store().Get(kB).status()));
}

TEST_P(BlobStoreConformance, WhatIsDeletedIsGone) {
  ASSERT_TRUE(store().Put(kA, "one").ok());
  ASSERT_TRUE(store().Delete(kA).ok());
  EXPECT_TRUE(absl::IsNotFound(store().Get(kA).status()));
  EXPECT_TRUE(store().Delete(kA).ok());
}

TEST_P(BlobStoreConformance, AScanVisitsEachKeyOnceAndEndsOnAnError) {
  ASSERT_TRUE(store().Put(kA, "one").ok());
  ASSERT_TRUE(store().Put(kB, "four").ok());
  ASSERT_TRUE(store().Put(kB, "three").ok());
  std::map<Digest, int> visits;
  ASSERT_TRUE(store()
                  .Scan([&](const Digest& key, int64_t bytes) {
                    ++visits[key];
                    EXPECT_GT(bytes, 0);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(visits, (std::map<Digest, int>{{kA, 1}, {kB, 1}}));
  int seen = 0;
  const absl::Status ended = store().Scan([&](const Digest&, int64_t) {
    ++seen;
    return absl::CancelledError("enough");
  });
  EXPECT_TRUE(absl::IsCancelled(ended));
  EXPECT_EQ(seen, 1);
}

TEST_P(BlobStoreConformance, AScanGoesInOrderFromAKeyOn) {
  std::set<Digest> all;
  for (int i = 0; i < 10; ++i) {
    all.insert(Sha256Of(std::to_string(i)));
    ASSERT_TRUE(store().Put(Sha256Of(std::to_string(i)), "bytes").ok());
  }
  const Digest from = *std::next(all.begin(), 4);
  std::vector<Digest> seen;
  ASSERT_TRUE(store()
                  .ScanFrom(from,
                            [&seen](const Digest& key, int64_t) {
                              seen.push_back(key);
                              return absl::OkStatus();
                            })
                  .ok());
  EXPECT_EQ(seen, std::vector<Digest>(all.find(from), all.end()));
}

INSTANTIATE_TEST_SUITE_P(Memory, BlobStoreConformance,
                         testing::Values(&MakeMemory));
INSTANTIATE_TEST_SUITE_P(RocksDb, BlobStoreConformance,
                         testing::Values(&MakeRocksDb));
INSTANTIATE_TEST_SUITE_P(Tiered, BlobStoreConformance,
                         testing::Values(&MakeTiered));
INSTANTIATE_TEST_SUITE_P(Metered, BlobStoreConformance,
                         testing::Values(&MakeMetered));
INSTANTIATE_TEST_SUITE_P(Bounded, BlobStoreConformance,
                         testing::Values(&MakeBounded));
INSTANTIATE_TEST_SUITE_P(Lru, BlobStoreConformance, testing::Values(&MakeLru));
INSTANTIATE_TEST_SUITE_P(Forgetting, BlobStoreConformance,
                         testing::Values(&MakeForgetting));
INSTANTIATE_TEST_SUITE_P(Verified, BlobStoreConformance,
                         testing::Values(&MakeVerified));

}  // namespace
}  // namespace kiln

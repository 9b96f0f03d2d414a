// Which builds' entries go first when the store is full.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cache/artifact_cache.h"
#include "cache/memory_blob_store.h"
#include "tests/proto/key/sample_graph.h"

namespace kiln {
namespace {

// The cache of one daemon, with what its own workers made.
class OneCache {
 public:
  void Insert(const std::string& build) {
    const wire::CompileRequest request = SampleRequest();
    NewEntry entry;
    entry.key =
        MakeCompileKey(CanonicalizeRequest(request)->digest,
                       {Sha256Of(build), "c1", "g++ 12", "nvrtc 13"}, {});
    entry.cache_namespace = "default";
    entry.artifact.set_artifact("bytes");
    key_ = entry.key.digest;
    ASSERT_TRUE(cache_.Insert(std::move(entry)).ok());
  }

  // The last one, without its artifact.
  wire::CacheEntry Entry() const {
    wire::CacheEntry entry;
    const auto index = cache_.ReadIndex(key_);
    EXPECT_TRUE(index.ok()) << index.status();
    if (!index.ok()) return entry;
    *entry.mutable_key() = index->key();
    *entry.mutable_facts() = index->entries(0);
    return entry;
  }

  // As a record of another daemon is stored.
  void Take(const wire::CacheEntry& entry, const std::string& build) {
    ASSERT_TRUE(
        ledger_
            .Add(*Digest::FromBytes(entry.facts().entry_id()),
                 {.cache_namespace = "default", .build = Sha256Of(build)})
            .ok());
    ASSERT_TRUE(cache_.Name(entry).ok());
  }

  std::set<Digest> Stale() const {
    std::set<Digest> stale;
    for (int shard = 0; shard < Ledger::kShards; ++shard)
      for (const Evictable& one : ledger_.ShardSample(shard, {}))
        if (one.stale) stale.insert(one.key);
    return stale;
  }

 private:
  const RealClock clock_;
  const KeyRing keys_{*SigningKey::Generate()};
  MemoryBlobStore entries_, indexes_, graphs_;
  MemoryRows facts_, uses_;
  Ledger ledger_{facts_, uses_, clock_};
  ArtifactCache cache_{{.entries = {entries_, entries_},
                        .indexes = {indexes_, indexes_},
                        .graphs = graphs_,
                        .ledger = ledger_,
                        .keys = keys_}};
  Digest key_;
};

TEST(LiveBuild, ABuildThatAnotherDaemonNamesIsStale) {
  OneCache mine, anothers;
  mine.Insert("mine");
  anothers.Insert("made up");
  EXPECT_TRUE(anothers.Stale().empty());
  const wire::CacheEntry taken = anothers.Entry();
  mine.Take(taken, "made up");
  EXPECT_EQ(mine.Stale(),
            std::set<Digest>{*Digest::FromBytes(taken.facts().entry_id())});
}

}  // namespace
}  // namespace kiln

// How often a hit from the disk copies its bytes.
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cache/artifact_cache.h"
#include "cache/lru_blob_store.h"
#include "cache/memory_blob_store.h"
#include "cache/tiered_blob_store.h"
#include "cache/verified_blob_store.h"
#include "gtest/gtest.h"
#include "tests/support/key_named.h"

namespace {

// Memory that was taken in pieces of at least so many bytes, by this thread.
constexpr size_t kLarge = size_t{1} << 20;
thread_local size_t large_pieces = 0;

}  // namespace

void* operator new(size_t bytes) {
  if (bytes >= kLarge) ++large_pieces;
  if (void* memory = malloc(bytes)) return memory;
  abort();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace kiln {
namespace {

// What the disk gives is in memory already: its own copy is not counted.
TEST(HitCopies, AHitFromTheDiskCopiesItsBytesTwiceAndOneFromMemoryNever) {
  const FakeClock clock;
  const auto keys = std::make_shared<KeyRing>(*SigningKey::Generate());
  MemoryBlobStore disk, quarantine, graphs;
  VerifiedBlobStore verified(disk, quarantine, keys);
  LruBlobStore memory(int64_t{64} << 20), index_memory(int64_t{1} << 20);
  MemoryBlobStore indexes;
  TieredBlobStore entries(memory, verified), index_tiers(index_memory, indexes);
  MemoryRows facts, uses;
  Ledger ledger(facts, uses, clock);
  ArtifactCache cache({.entries = {entries, verified, &memory},
                       .indexes = {index_tiers, indexes, &index_memory},
                       .graphs = graphs,
                       .ledger = ledger,
                       .keys = *keys});
  NewEntry entry;
  entry.key = KeyNamed("model");
  entry.artifact.set_artifact(std::string(4 * kLarge, 'a'));
  ASSERT_TRUE(cache.Insert(std::move(entry)).ok());
  const Digest key = KeyOfName("model");
  const TuningDecisions none;
  const EntryQuery query = {.values = {}, .decisions = none};
  ASSERT_TRUE(memory
                  .Scan([&memory](const Digest& id, int64_t) {
                    return memory.Delete(id);
                  })
                  .ok());

  // One for what was verified, which memory keeps; one for the answer.
  large_pieces = 0;
  const CacheAnswer answer = cache.Lookup(key, query);
  ASSERT_TRUE(answer.hit());
  EXPECT_EQ(large_pieces, 2u);
  // The first of them from memory knows where the artifact stands.
  large_pieces = 0;
  const auto ready = cache.LookupInMemory(key, query);
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(large_pieces, 0u);
  EXPECT_EQ(ready->artifact, answer.artifact.SerializeAsString());
}

}  // namespace
}  // namespace kiln

#include "cache/ready_entry.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache_stack.h"
#include "cache/entry_facts.h"
#include "cache/read_once.h"
#include "proto/artifact.pb.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/cache_entry.pb.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

wire::CacheEntry RecordOf(const CompileKey& key, const Digest& id) {
  wire::CacheEntry entry;
  *entry.mutable_key() = KeyFactsOf(key, "");
  entry.mutable_facts()->set_entry_id(id.ToBytes());
  entry.mutable_artifact()->set_artifact("the artifact's bytes");
  entry.mutable_artifact()->set_signature("signed");
  wire::ArtifactEnvelope envelope;
  envelope.set_signer("somebody");
  *entry.mutable_artifact()->mutable_envelope() = envelope.SerializeAsString();
  return entry;
}

TEST(ReadyEntry, SaysWhereItsArtifactIsAndWhoSignedIt) {
  const CompileKey named = KeyNamed("key");
  const Digest key = named.digest;
  const Digest id = EntryId(key, {}, {});
  const wire::CacheEntry entry = RecordOf(named, id);
  const std::string record = entry.SerializeAsString();
  const auto ready = ReadReadyEntry(record, key, id);
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_EQ((*ready)->signer, "somebody");
  EXPECT_EQ(record.substr((*ready)->artifact_begin, (*ready)->artifact_bytes),
            entry.artifact().SerializeAsString());
}

TEST(ReadyEntry, IsNoneOfAnotherOrOfACutRecord) {
  const CompileKey named = KeyNamed("key");
  const Digest key = named.digest;
  const Digest id = EntryId(key, {}, {});
  const std::string record = RecordOf(named, id).SerializeAsString();
  EXPECT_EQ(ReasonOf(ReadReadyEntry(record, id, id).status()),
            ErrorReason::kArtifactCorrupt);
  EXPECT_EQ(ReasonOf(ReadReadyEntry(record, key, key).status()),
            ErrorReason::kArtifactCorrupt);
  for (size_t bytes = 0; bytes < record.size(); ++bytes) {
    EXPECT_EQ(
        ReasonOf(ReadReadyEntry(record.substr(0, bytes), key, id).status()),
        ErrorReason::kArtifactCorrupt)
        << bytes;
  }
  // Two artifacts merge into one that stands nowhere.
  EXPECT_EQ(ReasonOf(ReadReadyEntry(record + record, key, id).status()),
            ErrorReason::kArtifactCorrupt);
}

TEST(ReadOnce, ReadsTheSameBytesOnceAndOthersAnew) {
  ReadOnce<std::string> once(2);
  int reads = 0;
  const auto read = [&](const Blob& record) {
    ++reads;
    return absl::StatusOr<std::shared_ptr<const std::string>>(record);
  };
  const auto get = [&](const std::string& name, const Blob& record) {
    return **once.Get(Sha256Of(name), record, read);
  };
  const auto first = std::make_shared<const std::string>("first");
  const auto second = std::make_shared<const std::string>("second");
  EXPECT_EQ(get("a", first), "first");
  EXPECT_EQ(get("a", first), "first");
  EXPECT_EQ(reads, 1);
  EXPECT_EQ(get("a", second), "second");
  EXPECT_EQ(get("a", second), "second");
  EXPECT_EQ(reads, 2);
  // At most two: the one that was asked for longest ago gives way.
  get("b", first);
  get("a", second);
  get("c", first);
  EXPECT_EQ(reads, 4);
  get("a", second);
  EXPECT_EQ(reads, 4);
  get("b", first);
  EXPECT_EQ(reads, 5);
}

TEST(ReadOnce, KeepsSoManyBytesOfRecords) {
  ReadOnce<std::string> once(100, 10);
  int reads = 0;
  const auto get = [&](const std::string& name, const Blob& record) {
    const auto made = once.Get(Sha256Of(name), record, [&](const Blob& bytes) {
      ++reads;
      return absl::StatusOr<std::shared_ptr<const std::string>>(bytes);
    });
    EXPECT_EQ(**made, *record);
  };
  const auto four = std::make_shared<const std::string>("four");
  const auto eight = std::make_shared<const std::string>("is eight");
  const auto eleven = std::make_shared<const std::string>("more bytes.");
  get("a", four);
  get("b", four);
  get("a", four);
  EXPECT_EQ(reads, 2);
  get("b", eight);  // in place of four; a gives way
  get("b", eight);
  EXPECT_EQ(reads, 3);
  get("b", four);
  get("a", four);
  get("b", four);
  get("a", four);
  EXPECT_EQ(reads, 5);
  get("c", eleven);  // too many alone: nothing is kept
  get("c", eleven);
  EXPECT_EQ(reads, 7);
}

TEST(LookupInMemory, FindsWhatIsThereAndNothingThatIsGone) {
  FakeClock clock;
  const auto keys = std::make_shared<KeyRing>(*SigningKey::Generate());
  const auto stack = CacheStack::Open({}, keys, clock);
  ASSERT_TRUE(stack.ok()) << stack.status();
  ArtifactCache& cache = (*stack)->artifacts();
  NewEntry entry;
  entry.key = KeyNamed("key");
  entry.artifact.set_artifact("the artifact's bytes");
  const std::vector<int64_t> values;
  const TuningDecisions decisions;
  const EntryQuery query = {values, decisions};
  EXPECT_FALSE(cache.LookupInMemory(entry.key.digest, query).has_value());
  ASSERT_TRUE(cache.Insert(entry).ok());
  const auto hit = cache.LookupInMemory(entry.key.digest, query);
  ASSERT_TRUE(hit.has_value());
  wire::SignedArtifact artifact;
  ASSERT_TRUE(artifact.ParseFromArray(hit->artifact.data(),
                                      static_cast<int>(hit->artifact.size())));
  EXPECT_EQ(artifact.SerializeAsString(),
            cache.Lookup(entry.key.digest, query).artifact.SerializeAsString());

  EntryQuery foreign = query;
  foreign.cache_namespace = "another";
  EXPECT_FALSE(cache.LookupInMemory(entry.key.digest, foreign).has_value());
  ASSERT_TRUE(cache.Purge({.all = true}).ok());
  EXPECT_FALSE(cache.LookupInMemory(entry.key.digest, query).has_value());
  // A caller that has it keeps it.
  EXPECT_NE(hit->artifact.find("the artifact's bytes"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace kiln

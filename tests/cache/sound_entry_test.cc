#include "cache/sound_entry.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cache/entry_facts.h"
#include "cache/entry_id.h"
#include "cache/key_index.h"
#include "proto/base/status.h"
#include "proto/base/work_limits.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

const CompileKey kKey = KeyNamed("a model", "team-a");
const Digest kId = EntryId(kKey.digest, {}, {"row choice"});

wire::CacheEntry Entry() {
  wire::CacheEntry entry;
  *entry.mutable_key() = KeyFactsOf(kKey, "team-a");
  entry.mutable_facts()->set_entry_id(kId.ToBytes());
  entry.mutable_facts()->add_tuned("row choice");
  return entry;
}

wire::CacheKeyPart& Part(wire::CacheEntry& entry, const std::string& name) {
  for (wire::CacheKeyPart& part : *entry.mutable_key()->mutable_parts())
    if (part.name() == name) return part;
  return *entry.mutable_key()->add_parts();
}

TEST(SoundEntry, IsReadUnderItsIdAndKey) {
  const std::string payload = Entry().SerializeAsString();
  EXPECT_TRUE(ReadEntryRecord(kId, payload).ok());
  EXPECT_TRUE(ReadEntryRecord(kKey.digest, kId, payload).ok());
  EXPECT_FALSE(ReadEntryRecord(Sha256Of("another"), kId, payload).ok());
  EXPECT_FALSE(ReadEntryRecord(Sha256Of("another"), payload).ok());
  EXPECT_FALSE(ReadEntryRecord(kId, "\xff\xff").ok());
}

// Lookups of the key would try them all, each time.
TEST(SoundEntry, MoreConditionsThanAPlanMayHaveAreRefused) {
  const auto read = [](wire::CacheEntry entry) {
    wire::EntryFacts& facts = *entry.mutable_facts();
    const std::vector<std::string> tuned(facts.tuned().begin(),
                                         facts.tuned().end());
    const Digest id = EntryId(kKey.digest, facts.guards(), tuned);
    facts.set_entry_id(id.ToBytes());
    const absl::Status status =
        ReadEntryRecord(id, entry.SerializeAsString()).status();
    wire::KeyIndex index;
    *index.mutable_key() = entry.key();
    *index.add_entries() = facts;
    EXPECT_EQ(
        ReasonOf(
            ReadIndexRecord(kKey.digest, index.SerializeAsString()).status()),
        ReasonOf(status));
    return status;
  };
  wire::CacheEntry entry = Entry();
  auto& guards = *entry.mutable_facts()->mutable_guards();
  for (int i = 1; i < kMostConditions; ++i) guards.add_symbols();
  EXPECT_EQ(read(entry), absl::OkStatus());
  guards.add_symbols();
  EXPECT_EQ(ReasonOf(read(entry)), ErrorReason::kArtifactCorrupt);
  guards.Clear();
  guards.add_symbols()->set_origin(std::string(kMostConditionBytes, 'o'));
  EXPECT_EQ(ReasonOf(read(entry)), ErrorReason::kArtifactCorrupt);
  guards.Clear();
  entry.mutable_facts()->add_tuned(std::string(kMostConditionBytes, 't'));
  EXPECT_EQ(ReasonOf(read(entry)), ErrorReason::kArtifactCorrupt);
}

// Each is what somebody may sign whose key counts somewhere.
TEST(SoundEntry, ALieAboutNamespaceKeyOrIdIsFound) {
  const std::vector<std::function<void(wire::CacheEntry&)>> lies = {
      [](auto& e) { e.mutable_key()->set_cache_namespace("team-b"); },
      [](auto& e) { e.mutable_key()->set_cache_namespace(""); },
      // The namespace's part, and with it what the key is made of.
      [](auto& e) {
        e.mutable_key()->set_cache_namespace("team-b");
        Part(e, "namespace").set_digest(Sha256Of("team-b").ToBytes());
      },
      // One more of that name.
      [](auto& e) {
        e.mutable_key()->set_cache_namespace("team-b");
        Part(e, "schema").set_name("namespace");
        e.mutable_key()->mutable_parts(0)->set_digest(
            Sha256Of("team-b").ToBytes());
      },
      [](auto& e) { e.mutable_key()->clear_parts(); },
      [](auto& e) { e.mutable_key()->mutable_parts()->RemoveLast(); },
      [](auto& e) { *e.mutable_key()->add_parts() = e.key().parts(0); },
      [](auto& e) { Part(e, "graph").set_digest(Sha256Of("x").ToBytes()); },
      [](auto& e) { Part(e, "toolchain").set_text("g++ 13"); },
      [](auto& e) { e.mutable_key()->set_compile_key("short"); },
      // Random bytes as an id, and what an id is made of.
      [](auto& e) { e.mutable_facts()->set_entry_id(std::string(32, 'r')); },
      [](auto& e) { e.mutable_facts()->add_tuned("another row"); },
      [](auto& e) { e.mutable_facts()->clear_tuned(); },
      [](auto& e) { e.mutable_facts()->mutable_guards()->add_symbols(); },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    wire::CacheEntry entry = Entry();
    lies[i](entry);
    const std::string payload = entry.SerializeAsString();
    // Under the id that it should have, and under the one that it says.
    EXPECT_EQ(ReasonOf(ReadEntryRecord(kId, payload).status()),
              ErrorReason::kArtifactCorrupt)
        << i;
    EXPECT_EQ(ReasonOf(ReadEntryRecord(IdOf(entry.facts()), payload).status()),
              ErrorReason::kArtifactCorrupt)
        << i;
  }
}

TEST(SoundEntry, WhatIsForPeopleAloneMayDiffer) {
  wire::CacheEntry entry = Entry();
  entry.mutable_key()->set_graph_name("another name");
  entry.mutable_facts()->set_created_unix_ms(7);
  EXPECT_TRUE(ReadEntryRecord(kId, entry.SerializeAsString()).ok());
}

TEST(CompileKey, IsTheDigestOfItsPartsHoweverLongTheToolchainsNames) {
  const RequestDigest request = {kKey.parts, TotalOf(kKey.parts)};
  wire::Target target;
  target.mutable_cpu();
  for (const size_t bytes : {0, 20, 200, 201, 5000}) {
    const BuildIdentity build = {Sha256Of("compiler"), "c",
                                 std::string(bytes, 'g'), ""};
    BuildIdentity other = build;
    other.cpu_toolchain += "+";
    const CompileKey key = MakeCompileKey(request, build, target);
    EXPECT_EQ(DigestOfParts(key.parts), key.digest) << bytes;
    EXPECT_LE(key.parts.back().text.size(), kMaxPartText) << bytes;
    EXPECT_EQ(CompileKeyDigest(request.total, build, target), key.digest);
    EXPECT_NE(CompileKeyDigest(request.total, other, target), key.digest)
        << bytes;
  }
}

}  // namespace
}  // namespace kiln

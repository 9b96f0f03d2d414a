// A far store that lies: whatever is not what was asked is a miss and counted, and
// harms nothing near.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cache/cache_stack.h"
#include "cache/entry_facts.h"
#include "cache/entry_format.h"
#include "cache/far/far_record.h"
#include "proto/base/assemble.h"
#include "proto/base/bounded_log.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "tests/support/key_named.h"
#include "tests/support/map_far_store.h"

namespace kiln {
namespace {

class PoisonTest : public testing::Test {
 protected:
  std::unique_ptr<CacheStack> Open(const SigningKey& signer,
                                   const TrustedKeys& trusted = {}) {
    CacheOptions options;
    options.far_store = far_;
    options.far = {.budget = absl::Seconds(10),
                   .queue_bytes = 1 << 20,
                   .max_record_bytes = 1 << 20};
    auto stack = CacheStack::Open(
        options, std::make_shared<KeyRing>(signer, trusted), clock_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return *std::move(stack);
  }
  static int64_t Counter(const CacheStack& stack, const std::string& name) {
    const auto rows = stack.Counters();
    return std::map<std::string, int64_t>(rows.begin(), rows.end()).at(name);
  }
  static NewEntry Entry(const SigningKey& signer, const std::string& name,
                        const std::string& cache_namespace = "default") {
    NewEntry entry;
    entry.key = KeyNamed(name, cache_namespace);
    entry.cache_namespace = cache_namespace;
    wire::ArtifactEnvelope envelope;
    envelope.set_cache_namespace(cache_namespace);
    envelope.set_compile_key(entry.key.digest.ToBytes());
    envelope.set_entry_id(EntryId(entry.key.digest, {}, {}).ToBytes());
    entry.artifact = SealArtifact(signer, envelope, "artifact of " + name);
    return entry;
  }
  static Digest KeyOf(const std::string& name) {
    return KeyOfName(name, "default");
  }
  static Digest IdOf(const std::string& name) {
    return EntryId(KeyOf(name), {}, {});
  }
  static FarName Name(const std::string& name) {
    return {KeyOf(name), IdOf(name)};
  }
  static CacheAnswer LookupFar(CacheStack& stack, const std::string& name,
                               absl::string_view cache_namespace = "default") {
    ArtifactCache::FarAnswer far =
        stack.artifacts().LookupFar(KeyOf(name), {{}, {}, 0, cache_namespace},
                                    After(SteadyNow(), absl::Seconds(10)));
    if (far.answer.hit()) stack.artifacts().KeepNear(far.found);
    return far.answer;
  }
  // Stored far by a daemon that is gone.
  void Publish(const std::vector<std::string>& names) {
    const auto stack = Open(maker_);
    for (const std::string& name : names)
      ASSERT_TRUE(stack->artifacts().Insert(Entry(maker_, name)).ok());
    far_->AwaitRecords(names.size());
  }

  const SigningKey maker_ = *SigningKey::Generate();
  const SigningKey reader_ = *SigningKey::Generate();
  const std::shared_ptr<MapFarStore> far_ = std::make_shared<MapFarStore>();
  FakeClock clock_;
};

TEST_F(PoisonTest, WhatATrustedDaemonStoredIsServedAndKeptAsItWasSigned) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  EXPECT_EQ(LookupFar(*stack, "a").artifact.artifact(), "artifact of a");
  far_->Fail(absl::InternalError("gone"));
  EXPECT_TRUE(stack->artifacts().Lookup(KeyOf("a"), {{}, {}}).hit());
  EXPECT_EQ(Counter(*stack, "far.hits"), 1);
}

TEST_F(PoisonTest, EveryFlippedBitOfARecordIsFound) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  const std::string sound = far_->Record(Name("a"));
  const int64_t bits = static_cast<int64_t>(sound.size()) * 8;
  for (int64_t bit = 0; bit < bits; ++bit) {
    std::string record = sound;
    record[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    far_->Record(Name("a")) = record;
    ASSERT_FALSE(LookupFar(*stack, "a").hit()) << "bit " << bit;
  }
  EXPECT_GT(bits, 2000);
  EXPECT_EQ(Counter(*stack, "far.refused"), bits);
  EXPECT_EQ(Counter(*stack, "far.hits"), 0);
  EXPECT_EQ(Counter(*stack, "cache.artifacts.entries"), 0);
  EXPECT_EQ(Counter(*stack, "cache.quarantine.records"), 0);
  far_->Record(Name("a")) = sound;
  EXPECT_TRUE(LookupFar(*stack, "a").hit());
}

TEST_F(PoisonTest, EveryFlippedBitOfAHintIsFound) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  const std::string sound = far_->Hint(KeyOf("a"), IdOf("a"));
  const int64_t bits = static_cast<int64_t>(sound.size()) * 8;
  for (int64_t bit = 0; bit < bits; ++bit) {
    std::string hint = sound;
    hint[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    far_->Hint(KeyOf("a"), IdOf("a")) = hint;
    ASSERT_FALSE(LookupFar(*stack, "a").hit()) << "bit " << bit;
  }
  EXPECT_EQ(Counter(*stack, "far.refused"), bits);
}

// Whoever can write to the store, and whoever asks, has no say in the log's size.
TEST_F(PoisonTest, WhatIsRefusedFillsNoLog) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  far_->Record(Name("a")) = "poison";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) LookupFar(*stack, "a");
  far_->Fail(MakeError(ErrorReason::kStorage, "refused"));
  for (int i = 0; i < 1000; ++i) LookupFar(*stack, "a");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'),
            2 * kMostBoundedLines + 2)
      << said.substr(0, 2000);
  EXPECT_EQ(Counter(*stack, "far.refused"), 1000);
  EXPECT_EQ(Counter(*stack, "far.errors"), 1000);
}

TEST_F(PoisonTest, AnUntrustedSignerIsRefused) {
  Publish({"a"});
  const auto stack = Open(reader_);
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  EXPECT_EQ(Counter(*stack, "far.refused"), 1);
}

TEST_F(PoisonTest, ARecordReplayedUnderAnotherNameIsRefused) {
  Publish({"a", "b"});
  const auto stack = Open(reader_, {maker_.public_key()});
  // Another key's record under this entry; and another key's hint and record both.
  far_->Record(Name("a")) = far_->Record(Name("b"));
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  far_->Hint(KeyOf("a"), IdOf("b")) = far_->Hint(KeyOf("b"), IdOf("b"));
  far_->Record({KeyOf("a"), IdOf("b")}) = far_->Record(Name("b"));
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  EXPECT_EQ(Counter(*stack, "far.refused"), 3);
  EXPECT_TRUE(LookupFar(*stack, "b").hit());
}

TEST_F(PoisonTest, ATrustedSignersRecordOfOtherContentsIsRefused) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  // What a daemon with a fault, or another version's, might sign.
  const NewEntry other = Entry(maker_, "b");
  wire::CacheEntry entry;
  *entry.mutable_key() = KeyFactsOf(KeyNamed("a", "default"), "default");
  entry.mutable_facts()->set_entry_id(IdOf("a").ToBytes());
  *entry.mutable_artifact() = other.artifact;  // its envelope is b's
  far_->Record(Name("a")) =
      SealRecord(IdOf("a"), DeterministicBytes(entry), maker_);
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  // Of another namespace than its artifact's.
  *entry.mutable_artifact() = Entry(maker_, "a").artifact;
  entry.mutable_key()->set_cache_namespace("team-b");
  far_->Record(Name("a")) =
      SealRecord(IdOf("a"), DeterministicBytes(entry), maker_);
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  // An artifact that somebody else signed.
  entry.mutable_key()->set_cache_namespace("default");
  *entry.mutable_artifact() = Entry(*SigningKey::Generate(), "a").artifact;
  far_->Record(Name("a")) =
      SealRecord(IdOf("a"), DeterministicBytes(entry), maker_);
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  // No message at all.
  far_->Record(Name("a")) = SealRecord(IdOf("a"), "\xff\xff", maker_);
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  EXPECT_EQ(Counter(*stack, "far.refused"), 4);
  EXPECT_EQ(Counter(*stack, "cache.artifacts.entries"), 0);
}

TEST_F(PoisonTest, ACallerGetsNothingOfAnotherNamespace) {
  Publish({"a"});
  const auto stack = Open(reader_, {maker_.public_key()});
  EXPECT_FALSE(LookupFar(*stack, "a", "team-b").hit());
  ASSERT_TRUE(LookupFar(*stack, "a").hit());
  EXPECT_EQ(
      stack->artifacts().Lookup(KeyOf("a"), {{}, {}, 0, "team-b"}).outcome,
      CacheOutcome::kMiss);
}

// A key counts in a namespace; what it signs is of that namespace's keys alone.
TEST_F(PoisonTest, ASignerOfOneNamespaceMakesNoEntryOfAnothersKey) {
  Publish({"a"});
  const SigningKey team_b = *SigningKey::Generate();
  TrustedKeys trusted = {maker_.public_key()};
  trusted.Add(team_b.public_key(), "team-b");
  const auto stack = Open(reader_, trusted);
  // Of the key in "default", it says; younger, and of an id of its own.
  wire::CacheEntry entry;
  *entry.mutable_key() = KeyFactsOf(KeyNamed("a", "default"), "team-b");
  wire::EntryFacts& facts = *entry.mutable_facts();
  facts.set_created_unix_ms(int64_t{1} << 50);
  facts.add_tuned("row ");
  const Digest id = EntryId(KeyOf("a"), {}, {"row "});
  facts.set_entry_id(id.ToBytes());
  wire::ArtifactEnvelope envelope;
  envelope.set_cache_namespace("team-b");
  envelope.set_compile_key(KeyOf("a").ToBytes());
  envelope.set_entry_id(id.ToBytes());
  *entry.mutable_artifact() = SealArtifact(team_b, envelope, "poison");
  ASSERT_TRUE(far_->Put({KeyOf("a"), id}, HintOf(facts),
                        SealRecord(id, DeterministicBytes(entry), team_b), {})
                  .ok());
  // Neither does it hide the right one.
  EXPECT_EQ(LookupFar(*stack, "a").artifact.artifact(), "artifact of a");
  EXPECT_EQ(Counter(*stack, "far.refused"), 1);
  EXPECT_FALSE(LookupFar(*stack, "a", "team-b").hit());
  const auto near = stack->artifacts().List({});
  ASSERT_EQ(near->entries.size(), 1u);
  EXPECT_EQ(near->entries[0].cache_namespace, "default");
  // Of its own namespace's key it is believed.
  *entry.mutable_key() = KeyFactsOf(KeyNamed("a", "team-b"), "team-b");
  const Digest own = KeyOfName("a", "team-b");
  const Digest own_id = EntryId(own, {}, {"row "});
  facts.set_entry_id(own_id.ToBytes());
  envelope.set_compile_key(own.ToBytes());
  envelope.set_entry_id(own_id.ToBytes());
  *entry.mutable_artifact() = SealArtifact(team_b, envelope, "of team-b");
  EXPECT_TRUE(
      OpenFarEntry(own, own_id,
                   SealRecord(own_id, DeterministicBytes(entry), team_b),
                   trusted)
          .ok());
}

TEST_F(PoisonTest, PoisonDoesNotTouchWhatIsNear) {
  const auto stack = Open(maker_);
  ASSERT_TRUE(stack->artifacts().Insert(Entry(maker_, "a")).ok());
  far_->AwaitRecords(1);
  far_->Record(Name("a")) = "poison";
  EXPECT_FALSE(LookupFar(*stack, "a").hit());
  EXPECT_EQ(stack->artifacts().Lookup(KeyOf("a"), {{}, {}}).artifact.artifact(),
            "artifact of a");
  EXPECT_EQ(Counter(*stack, "cache.broken"), 0);
}

TEST_F(PoisonTest, UnitsAreFetchedAndPoisonedOnesBuiltAgain) {
  wire::ObjectCode object;
  object.set_image("image");
  {
    const auto stack = Open(maker_);
    ASSERT_TRUE(stack->units().Insert(Sha256Of("u"), object, {}).ok());
    ASSERT_TRUE(stack->units().Insert(Sha256Of("v"), object, {}).ok());
    far_->AwaitRecords(2);
  }
  far_->Record({Sha256Of("v"), std::nullopt}) =
      far_->Record({Sha256Of("u"), std::nullopt});
  const auto stack = Open(reader_, {maker_.public_key()});
  stack->units().Fetch({Sha256Of("u"), Sha256Of("v"), Sha256Of("w")});
  EXPECT_EQ(stack->units().Lookup(Sha256Of("u"))->image(), "image");
  EXPECT_FALSE(stack->units().Lookup(Sha256Of("v")).has_value());
  EXPECT_EQ(Counter(*stack, "far.refused"), 1);
  EXPECT_EQ(Counter(*stack, "far.misses"), 2);
}

TEST_F(PoisonTest, AStoreThatFailsIsAMissAndCountedByItsKind) {
  const auto stack = Open(reader_);
  far_->Fail(absl::DeadlineExceededError("late"));
  EXPECT_EQ(LookupFar(*stack, "a").outcome, CacheOutcome::kMiss);
  far_->Fail(MakeError(ErrorReason::kStorage, "refused"));
  EXPECT_EQ(LookupFar(*stack, "a").outcome, CacheOutcome::kMiss);
  far_->Fail(absl::AbortedError("left alone"));
  EXPECT_EQ(LookupFar(*stack, "a").outcome, CacheOutcome::kMiss);
  EXPECT_EQ(Counter(*stack, "far.timeouts"), 1);
  EXPECT_EQ(Counter(*stack, "far.errors"), 1);
  EXPECT_EQ(Counter(*stack, "far.breaker_open"), 1);
  EXPECT_EQ(Counter(*stack, "far.misses"), 0);
}

}  // namespace
}  // namespace kiln

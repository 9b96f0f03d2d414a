#include "cache/artifact_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "cache/explain.h"
#include "cache/guard_match.h"
#include "cache/memory_blob_store.h"
#include "proto/base/status.h"
#include "tests/proto/key/sample_graph.h"
#include "tests/support/faulty_blob_store.h"

namespace kiln {
namespace {

const BuildIdentity kBuild = {Sha256Of("compiler"), "c1", "g++ 12", "nvrtc 13"};

CompileKey KeyOf(const wire::CompileRequest& request,
                 const BuildIdentity& build = kBuild) {
  return MakeCompileKey(CanonicalizeRequest(request)->digest, build,
                        request.target());
}

// s0 <= limit
wire::GuardSet AtMost(int64_t limit) {
  wire::GuardSet guards;
  wire::SymExpr* condition = guards.add_symbols()->mutable_condition();
  *condition = SymbolExpr(0);
  wire::SymInstruction* constant = condition->add_code();
  constant->set_op(wire::SYM_OP_CONSTANT);
  constant->set_value(limit);
  condition->add_code()->set_op(wire::SYM_OP_LE);
  guards.mutable_symbols(0)->set_origin("test");
  return guards;
}

class ArtifactCacheTest : public testing::Test {
 protected:
  absl::Status Insert(const wire::CompileRequest& request,
                      const std::string& bytes, wire::GuardSet guards = {},
                      std::vector<std::string> tuned = {}) {
    NewEntry entry;
    entry.key = KeyOf(request);
    entry.cache_namespace = "default";
    entry.artifact.set_artifact(bytes);
    entry.guards = std::move(guards);
    entry.tuned = std::move(tuned);
    entry.target = TargetText(request.target());
    entry.graph_name = "sample";
    entry.graph_text =
        GraphLines(CanonicalizeRequest(request)->request.graph());
    entry.phases.emplace_back().set_name("plan");
    return cache_.Insert(std::move(entry));
  }
  CacheAnswer Lookup(const wire::CompileRequest& request, int64_t rows = 10) {
    return cache_.Lookup(KeyOf(request).digest, {{rows}, decisions_});
  }

  // A choice is in force from now on.
  void Decide(const std::string& row, const std::string& choice) {
    MemoryBlobStore none;
    TuningCache tuning(none);
    for (const wire::TuningDecision& decision : decisions_) {
      ASSERT_TRUE(tuning.Insert({}, decision).ok());
    }
    wire::TuningDecision decision;
    decision.set_key(row);
    decision.set_choice(choice);
    ASSERT_TRUE(tuning.Insert({}, decision).ok());
    decisions_ = *tuning.DecisionsFor({});
  }

  FakeClock clock_;
  const KeyRing keys_{*SigningKey::Generate()};
  TuningDecisions decisions_;  // in force
  MemoryBlobStore memory_;
  FaultyBlobStore store_{memory_};
  MemoryBlobStore indexes_, graphs_;
  MemoryRows facts_, uses_;
  Ledger ledger_{facts_, uses_, clock_};
  ArtifactCache cache_{{.entries = {store_, store_},
                        .indexes = {indexes_, indexes_},
                        .graphs = graphs_,
                        .ledger = ledger_,
                        .keys = keys_}};
  const wire::CompileRequest request_ = SampleRequest();
};

wire::CompileRequest OtherOp() {
  wire::CompileRequest request = SampleRequest();
  request.mutable_graph()->mutable_nodes(0)->set_op("aten.sub.Tensor");
  return request;
}

wire::CompileRequest OnCuda() {
  wire::CompileRequest request = SampleRequest();
  request.mutable_target()->mutable_cuda()->set_arch("sm_90");
  return request;
}

TEST_F(ArtifactCacheTest, WhatIsInsertedIsHitAndOthersMiss) {
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  const CacheAnswer hit = Lookup(request_);
  EXPECT_TRUE(hit.hit());
  EXPECT_EQ(hit.artifact.artifact(), "bytes");
  EXPECT_EQ(Lookup(OtherOp()).outcome, CacheOutcome::kMiss);
}

TEST_F(ArtifactCacheTest, GuardsChooseAmongTheEntriesOfAKey) {
  ASSERT_TRUE(Insert(request_, "any size up to 1000", AtMost(1000)).ok());
  ASSERT_TRUE(Insert(request_, "small", AtMost(16)).ok());
  EXPECT_EQ(Lookup(request_, 10).artifact.artifact(), "small");
  EXPECT_EQ(Lookup(request_, 17).artifact.artifact(), "any size up to 1000");
  EXPECT_EQ(Lookup(request_, 1001).outcome, CacheOutcome::kGuardMiss);
}

TEST_F(ArtifactCacheTest, AGuardWithoutAValueDoesNotHold) {
  ASSERT_TRUE(Insert(request_, "bytes", AtMost(1000)).ok());
  EXPECT_EQ(cache_.Lookup(KeyOf(request_).digest, {{}, {}}).outcome,
            CacheOutcome::kGuardMiss);
}

TEST_F(ArtifactCacheTest, EqualGuardsReplaceAndTheLastStoredIsServed) {
  ASSERT_TRUE(Insert(request_, "first").ok());
  ASSERT_TRUE(Insert(request_, "second").ok());
  EXPECT_EQ(cache_.List({})->entries.size(), 1u);
  ASSERT_TRUE(Insert(request_, "looked up", {}, {"row "}).ok());
  EXPECT_EQ(cache_.List({})->entries.size(), 2u);
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "looked up");
}

TEST_F(ArtifactCacheTest, AnEntryIsServedWhileItsTuningIsTheOneInForce) {
  ASSERT_TRUE(Insert(request_, "untuned", {}, {"row/a ", "row/b "}).ok());
  ASSERT_TRUE(Insert(OtherOp(), "meets no row").ok());
  Decide("row/c", "threads=64 rows=1");  // of neither
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "untuned");
  Decide("row/b", "threads=128 rows=1");
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kGuardMiss);
  EXPECT_EQ(Lookup(OtherOp()).artifact.artifact(), "meets no row");
  ASSERT_TRUE(
      Insert(request_, "tuned", {}, {"row/a ", "row/b threads=128 rows=1"})
          .ok());
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "tuned");
  // Taken back: the older entry is right again.
  decisions_.clear();
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "untuned");
}

TEST_F(ArtifactCacheTest, WhatKeepsItsDecisionsIsServedWhateverIsDecided) {
  ASSERT_TRUE(
      Insert(request_, "kept", {}, {"row/a =", "row/b =threads=64 rows=1"})
          .ok());
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "kept");
  Decide("row/a", "threads=128 rows=1");
  Decide("row/b", "threads=128 rows=1");
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "kept");
}

TEST_F(ArtifactCacheTest, AnEntryWhoseTuningCannotBeReadIsNotServed) {
  ASSERT_TRUE(Insert(request_, "of another version", {}, {"nonsense"}).ok());
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kGuardMiss);
}

TEST_F(ArtifactCacheTest, AKeyKeepsABoundedNumberOfEntries) {
  for (int i = 0; i < 2 * kMaxEntriesPerKey; ++i) {
    ASSERT_TRUE(Insert(request_, "bytes", AtMost(i)).ok());
  }
  EXPECT_EQ(cache_.List({})->entries.size(), size_t{kMaxEntriesPerKey});
  int records = 0;
  ASSERT_TRUE(memory_
                  .Scan([&records](const Digest&, int64_t) {
                    ++records;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(records, kMaxEntriesPerKey);
}

TEST_F(ArtifactCacheTest, WhatIsNoIndexOfItsKeyIsBrokenAndThenGone) {
  ASSERT_TRUE(Insert(OtherOp(), "bytes").ok());
  const Blob other = *indexes_.Get(KeyOf(OtherOp()).digest);
  ASSERT_TRUE(indexes_.Put(KeyOf(request_).digest, *other).ok());
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kBroken);
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);
  ASSERT_TRUE(indexes_.Put(KeyOf(request_).digest, "no message").ok());
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kBroken);
}

// What once got in from a daemon that did not look.
TEST_F(ArtifactCacheTest, WhatSaysAnotherNamespaceThanItsKeysIsBroken) {
  const Digest key = KeyOf(request_).digest;
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  wire::KeyIndex index;
  ASSERT_TRUE(index.ParseFromString(**indexes_.Get(key)));
  index.mutable_key()->set_cache_namespace("team-b");
  ASSERT_TRUE(indexes_.Put(key, index.SerializeAsString()).ok());
  EXPECT_TRUE(cache_.List({.cache_namespace = "team-b"})->entries.empty());
  EXPECT_EQ(cache_.Purge({.cache_namespace = "team-b", .all = true})->entries,
            0);
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kBroken);

  ASSERT_TRUE(Insert(request_, "again").ok());
  const Digest id = Lookup(request_).entry_id;
  wire::CacheEntry entry;
  ASSERT_TRUE(entry.ParseFromString(**memory_.Get(id)));
  entry.mutable_key()->set_cache_namespace("team-b");
  ASSERT_TRUE(memory_.Put(id, entry.SerializeAsString()).ok());
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kBroken);
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);

  // Nobody adds to a key of another namespace.
  ASSERT_TRUE(Insert(request_, "again").ok());
  EXPECT_EQ(ReasonOf(cache_.Name(entry)), ErrorReason::kArtifactCorrupt);
  EXPECT_TRUE(Lookup(request_).hit());
}

TEST_F(ArtifactCacheTest, AnEntryThatIsAnothersIsBrokenAndTheNextOneServes) {
  ASSERT_TRUE(Insert(OtherOp(), "another's").ok());
  const Digest others = cache_.List({})->entries.at(0).entry_id;
  ASSERT_TRUE(Insert(request_, "any size").ok());
  ASSERT_TRUE(Insert(request_, "small", AtMost(16)).ok());
  const Digest small = Lookup(request_).entry_id;
  ASSERT_TRUE(memory_.Put(small, **memory_.Get(others)).ok());
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "any size");
  EXPECT_TRUE(absl::IsNotFound(memory_.Get(small).status()));
  EXPECT_EQ(cache_.List({})->entries.size(), 2u);
}

TEST_F(ArtifactCacheTest, AnEntryThatIsGoneLeavesTheIndex) {
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  const Digest id = Lookup(request_).entry_id;
  ASSERT_TRUE(memory_.Delete(id).ok());  // as by a crash in between
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kGuardMiss);
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);

  ASSERT_TRUE(Insert(request_, "bytes").ok());
  ASSERT_TRUE(cache_.Evict(id).ok());
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);
  EXPECT_EQ(cache_.List({})->entries.size(), 0u);
}

TEST_F(ArtifactCacheTest, OnlyAHitAndShowReadAnArtifact) {
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  ASSERT_TRUE(Insert(OtherOp(), "bytes").ok());
  store_.gets = 0;
  EXPECT_EQ(cache_.List({})->entries.size(), 2u);
  EXPECT_TRUE(cache_.Nearest(KeyOf(OnCuda()).parts, "x")->nearest.has_value());
  EXPECT_EQ(cache_.Purge({.all = true, .dry_run = true})->victims.size(), 2u);
  EXPECT_EQ(Lookup(OnCuda()).outcome, CacheOutcome::kMiss);
  EXPECT_EQ(store_.gets, 0);
  EXPECT_TRUE(Lookup(request_).hit());
  EXPECT_EQ(store_.gets, 1);
}

TEST(KeyIndex, TwoIndexesOfAKeyMergeByUnion) {
  const auto index = [](std::vector<std::pair<char, int64_t>> entries) {
    wire::KeyIndex made;
    made.mutable_key()->set_graph_name("g");
    for (const auto& [name, created] : entries) {
      wire::EntryFacts& entry = *made.add_entries();
      entry.set_entry_id(std::string(Digest::kBytes, name));
      entry.set_created_unix_ms(created);
    }
    return made;
  };
  const auto names = [](const wire::KeyIndex& merged) {
    std::string all;
    for (const wire::EntryFacts& entry : merged.entries())
      all += entry.entry_id()[0];
    return all;
  };
  std::vector<Digest> dropped;
  const wire::KeyIndex a = index({{'a', 5}, {'b', 3}, {'c', 1}});
  const wire::KeyIndex b = index({{'d', 4}, {'b', 3}});
  EXPECT_EQ(names(UnionOf(a, b, dropped)), "abcd");
  EXPECT_EQ(names(UnionOf(b, a, dropped)), "dbac");
  EXPECT_EQ(names(UnionOf(a, a, dropped)), "abc");
  EXPECT_TRUE(dropped.empty());
  wire::KeyIndex many;
  for (char c = 'a'; c < 'a' + kMaxEntriesPerKey + 2; ++c)
    many.MergeFrom(index({{c, c}}));
  EXPECT_EQ(UnionOf(many, b, dropped).entries_size(), kMaxEntriesPerKey);
  EXPECT_EQ(dropped.size(), 2u);
  // What is added stays, also when all others have a later date.
  dropped.clear();
  const wire::KeyIndex full = UnionOf(many, b, dropped);
  dropped.clear();
  const std::string all = names(UnionOf(index({{'z', 0}}), full, dropped));
  EXPECT_EQ(all, "zabcdefghijklmno");
  EXPECT_EQ(dropped.size(), 1u);
}

TEST_F(ArtifactCacheTest, AWallClockThatGoesBackCostsNoEntry) {
  clock_.Jump(absl::Hours(24));
  for (int i = 0; i < kMaxEntriesPerKey; ++i)
    ASSERT_TRUE(Insert(request_, "a day ahead", AtMost(100 + i)).ok());
  clock_.Jump(-absl::Hours(24));
  ASSERT_TRUE(Insert(request_, "new", AtMost(50)).ok());
  EXPECT_EQ(Lookup(request_).artifact.artifact(), "new");
  EXPECT_EQ(cache_.List({})->entries.size(), size_t{kMaxEntriesPerKey});
  // Nor does the date that an entry bears depend on it.
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(cache_.Purge({.unused_for = absl::Minutes(30)})->entries,
            kMaxEntriesPerKey);
}

TEST_F(ArtifactCacheTest, AFullDiskIsSaidAndLosesNothing) {
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  store_.full = true;
  EXPECT_EQ(ReasonOf(Insert(OtherOp(), "more")), ErrorReason::kStorage);
  EXPECT_TRUE(Lookup(request_).hit());
  EXPECT_EQ(Lookup(OtherOp()).outcome, CacheOutcome::kMiss);
}

TEST_F(ArtifactCacheTest, ListAndShowFindByPrefix) {
  ASSERT_TRUE(Insert(request_, "bytes", AtMost(7)).ok());
  ASSERT_TRUE(Insert(OtherOp(), "bytes").ok());
  const std::string hex = KeyOf(request_).digest.Hex();
  const auto listed = cache_.List({.key_prefix_hex = hex.substr(0, 10)});
  ASSERT_EQ(listed->entries.size(), 1u);
  const EntrySummary& entry = listed->entries[0];
  EXPECT_EQ(entry.compile_key, KeyOf(request_).digest);
  EXPECT_EQ(entry.guards, (std::vector<std::string>{"s0 <= 7 (test)"}));
  EXPECT_EQ(entry.bytes, 5);
  EXPECT_EQ(cache_.List({.most = 1})->entries.size(), 1u);
  const auto shown = cache_.Show(hex);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->artifact.artifact(), "bytes");
  ASSERT_EQ(shown->phases.size(), 1);
  EXPECT_EQ(shown->phases[0].name(), "plan");
  EXPECT_EQ(shown->graph_text,
            GraphLines(CanonicalizeRequest(request_)->request.graph()));
  EXPECT_TRUE(absl::IsNotFound(cache_.Show("ffff0000ffff").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(cache_.Show("").status()));
}

TEST_F(ArtifactCacheTest, PagesHaveEveryEntryOnce) {
  constexpr size_t kEntries = 7;
  wire::CompileRequest request = request_;
  for (size_t i = 0; i < kEntries; ++i) {
    request.mutable_graph()->set_name("g");
    request.mutable_options()->mutable_artifact()->set_cache_tag(
        absl::StrCat("tag", i));
    ASSERT_TRUE(Insert(request, "bytes").ok());
  }
  ASSERT_EQ(cache_.List({})->entries.size(), kEntries);
  std::set<Digest> seen;
  PageQuery query{.most = 3};
  int pages = 0;
  do {
    const auto page = cache_.List(query);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->entries.size(), 3u);
    for (const EntrySummary& entry : page->entries)
      EXPECT_TRUE(seen.insert(entry.entry_id).second);
    query.after = page->next;
    ++pages;
  } while (query.after.has_value());
  EXPECT_EQ(seen.size(), kEntries);
  EXPECT_EQ(pages, 3);

  // A purge goes on where it stopped, whatever is gone by then.
  PurgeQuery purge{.all = true, .most_keys = 2};
  int64_t purged = 0;
  for (pages = 0; pages == 0 || purge.after.has_value(); ++pages) {
    const auto outcome = cache_.Purge(purge);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_LE(outcome->entries, 2);
    purged += outcome->entries;
    purge.after = outcome->next;
  }
  EXPECT_EQ(purged, static_cast<int64_t>(kEntries));
  EXPECT_EQ(pages, 4);
  EXPECT_TRUE(cache_.List({})->entries.empty());
}

TEST_F(ArtifactCacheTest, AWalkForNobodyEnds) {
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  const auto gone = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(cache_.List({.is_gone = gone}).status()));
  EXPECT_TRUE(
      absl::IsCancelled(cache_.Purge({.all = true, .is_gone = gone}).status()));
  EXPECT_EQ(cache_.List({})->entries.size(), 1u);
}

TEST_F(ArtifactCacheTest, PurgeTakesWhatItIsToldAndNoMore) {
  ASSERT_TRUE(Insert(request_, "bytes").ok());
  clock_.Advance(absl::Hours(48));
  ASSERT_TRUE(Insert(OnCuda(), "bytes").ok());
  const auto victims = [this](PurgeQuery query) {
    query.dry_run = true;
    return cache_.Purge(query)->victims.size();
  };
  EXPECT_EQ(victims({}), 0u);
  EXPECT_EQ(victims({.all = true}), 2u);
  EXPECT_EQ(victims({.unused_for = absl::Hours(24)}), 1u);
  EXPECT_EQ(victims({.device = "cuda"}), 1u);
  EXPECT_EQ(victims({.device = "sm_90"}), 1u);
  EXPECT_EQ(victims({.device = "sm_9"}), 0u);
  EXPECT_EQ(victims({.key_prefix_hex = KeyOf(request_).digest.Hex()}), 1u);
  EXPECT_EQ(victims({.unused_for = absl::Hours(24), .device = "cuda"}), 0u);

  EXPECT_TRUE(Lookup(request_).hit());  // a use, which makes it young
  EXPECT_EQ(victims({.unused_for = absl::Hours(24)}), 0u);
  const auto purged = cache_.Purge({.device = "cpu"});
  EXPECT_EQ(purged->victims.size(), 1u);
  EXPECT_EQ(purged->bytes, 5);
  EXPECT_EQ(Lookup(request_).outcome, CacheOutcome::kMiss);
  EXPECT_TRUE(Lookup(OnCuda()).hit());
}

TEST_F(ArtifactCacheTest, TheNearestEntryExplainsTheFirstDifference) {
  EXPECT_FALSE(cache_.Nearest(KeyOf(request_).parts, "")->nearest.has_value());
  ASSERT_TRUE(Insert(OtherOp(), "bytes").ok());
  const std::string lines =
      GraphLines(CanonicalizeRequest(request_)->request.graph());
  auto nearest = cache_.Nearest(KeyOf(request_).parts, lines)->nearest;
  ASSERT_TRUE(nearest.has_value());
  EXPECT_EQ(nearest->difference.part, "graph");
  EXPECT_NE(nearest->graph_difference.find("aten.sub.Tensor"),
            std::string::npos)
      << nearest->graph_difference;

  // An equal graph is nearer than an equal target.
  ASSERT_TRUE(Insert(OnCuda(), "bytes").ok());
  nearest = cache_.Nearest(KeyOf(request_).parts, lines)->nearest;
  EXPECT_EQ(nearest->entry.target, "cuda sm_90");
  EXPECT_EQ(nearest->difference.part, "target");
  EXPECT_EQ(nearest->difference.detail,
            "target: cpu x86-64-v3 against cuda sm_90");
}

TEST_F(ArtifactCacheTest, AnEntryServesDriversThatRunItsCode) {
  NewEntry entry;
  entry.key = KeyOf(request_);
  entry.cache_namespace = "default";
  entry.artifact.set_artifact("bytes");
  entry.least_driver_cuda_version = 13000;
  ASSERT_TRUE(cache_.Insert(std::move(entry)).ok());
  const auto outcome = [&](uint32_t driver) {
    return cache_.Lookup(KeyOf(request_).digest, {{}, {}, driver}).outcome;
  };
  EXPECT_EQ(outcome(13000), CacheOutcome::kHit);
  EXPECT_EQ(outcome(13010), CacheOutcome::kHit);
  EXPECT_EQ(outcome(12090), CacheOutcome::kGuardMiss);
  EXPECT_EQ(outcome(0), CacheOutcome::kHit);
}

TEST(CompileKey, TheBuildIsInItAndLookupCanComputeItsDigest) {
  const wire::Target cpu = SampleRequest().target();
  const RequestDigest digest = CanonicalizeRequest(SampleRequest())->digest;
  const CompileKey key = MakeCompileKey(digest, kBuild, cpu);
  EXPECT_EQ(key.digest, CompileKeyDigest(digest.total, kBuild, cpu));
  BuildIdentity newer = kBuild;
  newer.cuda_toolchain = "nvrtc 14";
  EXPECT_EQ(MakeCompileKey(digest, newer, cpu).digest, key.digest);
  newer.cpu_toolchain = "g++ 13";
  const CompileKey other = MakeCompileKey(digest, newer, cpu);
  EXPECT_NE(other.digest, key.digest);
  EXPECT_EQ(DiffKeys(key.parts, other.parts).detail,
            "toolchain: g++ 12 against g++ 13");
  EXPECT_EQ(DiffKeys(key.parts, key.parts).part, "");
}

TEST(GuardMatch, BrokenGuardsAreNamed) {
  const wire::GuardSet guards = AtMost(4);
  EXPECT_TRUE(GuardsHold(guards, {4}));
  EXPECT_FALSE(GuardsHold(guards, {5}));
  EXPECT_EQ(GuardsBroken(guards, {5}).symbols_size(), 1);
  EXPECT_EQ(GuardsBroken(guards, {4}).symbols_size(), 0);
  EXPECT_EQ(GuardTexts(guards)[0], "s0 <= 4 (test)");
}

TEST(GraphLines, AreReadable) {
  wire::Graph graph = CanonicalizeRequest(SampleRequest())->request.graph();
  graph.add_kernel_words("linear");
  EXPECT_EQ(GraphLines(graph),
            "symbol 0: [1, 4096]\n"
            "input 0: f32[s0, 4] strides [4, 1]\n"
            "node 0: aten.add.Tensor(v0, v0, alpha=1) -> "
            "f32[s0, 4] strides [4, 1]\n"
            "node 1: aten.relu.default(v1) -> f32[s0, 4] strides [4, 1]\n"
            "output 0: v2\n"
            "kernel word 0: linear\n");
  EXPECT_EQ(FirstDifferentLine("a\nb\n", "a\nc\n"), "line 2: `b` against `c`");
  EXPECT_EQ(FirstDifferentLine("a\n", "a\n"), "");
}

}  // namespace
}  // namespace kiln

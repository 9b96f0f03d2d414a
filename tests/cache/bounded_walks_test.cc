#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/artifact_cache.h"
#include "cache/graph_keys.h"
#include "cache/memory_blob_store.h"
#include "tests/support/faulty_blob_store.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

class BoundedWalksTest : public testing::Test {
 protected:
  void Insert(const std::string& name, const std::string& cache_namespace,
              const std::string& compiler = "a compiler") {
    NewEntry entry;
    entry.key = KeyNamed(name, cache_namespace, compiler);
    entry.cache_namespace = cache_namespace;
    ASSERT_EQ(cache_.Insert(std::move(entry)), absl::OkStatus());
  }
  // `indexes_.gets` says how many indexes that read.
  Nearness Near(const std::string& name, absl::string_view among,
                int64_t most) {
    indexes_.gets = 0;
    return *cache_.Nearest(KeyNamed(name, "team-b").parts, "", among, nullptr,
                           most);
  }

  FakeClock clock_;
  const KeyRing keys_{*SigningKey::Generate()};
  MemoryBlobStore entries_, index_memory_, graphs_;
  FaultyBlobStore indexes_{index_memory_};
  MemoryRows facts_, uses_;
  Ledger ledger_{facts_, uses_, clock_};
  ArtifactCache cache_{{.entries = {entries_, entries_},
                        .indexes = {indexes_, indexes_},
                        .graphs = graphs_,
                        .ledger = ledger_,
                        .keys = keys_}};
};

TEST_F(BoundedWalksTest, APageReadsSoManyKeysWhosever) {
  constexpr int kOthers = 8;
  for (int i = 0; i < kOthers; ++i) Insert(absl::StrCat(i), "team-b");
  Insert("mine", "team-a");
  PageQuery query{.cache_namespace = "team-a", .most_keys = 2};
  size_t found = 0, pinned = 0;
  int pages = 0;
  do {
    indexes_.gets = 0;
    const auto page = cache_.List(query);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(indexes_.gets, 3);  // one tells that there is more
    pinned += cache_.SetPinned(query, true)->entries.size();
    found += page->entries.size();
    query.after = page->next;
    ++pages;
  } while (query.after.has_value());
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(pinned, 1u);
  EXPECT_EQ(pages, (kOthers + 1 + 1) / 2);
}

TEST_F(BoundedWalksTest, AWalkOverASmallNamespaceReadsItsKeysAlone) {
  ledger_.SetWhole();
  for (int i = 0; i < 8; ++i) Insert(absl::StrCat(i), "team-b");
  constexpr int kMine = 3;
  for (int i = 0; i < kMine; ++i) Insert(absl::StrCat(i), "team-a");
  PageQuery query{.cache_namespace = "team-a", .most_keys = 2};
  std::vector<Digest> found;
  int pages = 0;
  indexes_.gets = 0;
  do {
    const auto page = cache_.List(query);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const EntrySummary& entry : page->entries) {
      EXPECT_EQ(entry.cache_namespace, "team-a");
      found.push_back(entry.compile_key);
    }
    query.after = page->next;
    ++pages;
  } while (query.after.has_value());
  EXPECT_EQ(found.size(), size_t{kMine});
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  EXPECT_EQ(pages, 2);
  EXPECT_EQ(indexes_.gets, kMine + 1);  // one told that there is more

  indexes_.gets = 0;
  EXPECT_EQ(
      cache_.SetPinned({.cache_namespace = "team-a"}, true)->entries.size(),
      size_t{kMine});
  EXPECT_EQ(indexes_.gets, kMine);
  const std::string digits = found[1].Hex().substr(0, 7);
  EXPECT_EQ(cache_.Show(digits, "team-a")->summary.compile_key, found[1]);
  EXPECT_TRUE(absl::IsNotFound(cache_.Show("", "team-c").status()));
  EXPECT_EQ(indexes_.gets, kMine + 1);

  EXPECT_EQ(cache_.Purge({.cache_namespace = "team-a", .all = true})->entries,
            kMine);
  EXPECT_TRUE(cache_.List({.cache_namespace = "team-a"})->entries.empty());
  EXPECT_EQ(cache_.List({})->entries.size(), 8u);
}

// A row of the ledger that can't be read hides no entry.
TEST_F(BoundedWalksTest, AWalkReadsAllKeysWhereTheLedgerDoesNotTell) {
  ledger_.SetWhole();
  Insert("mine", "team-a");
  Insert("another", "team-b");
  const auto page = cache_.List({.cache_namespace = "team-a"});
  ASSERT_EQ(page->entries.size(), 1u);
  ASSERT_TRUE(facts_.Delete(page->entries[0].entry_id).ok());
  indexes_.gets = 0;
  EXPECT_EQ(cache_.List({.cache_namespace = "team-a"})->entries.size(), 1u);
  EXPECT_EQ(indexes_.gets, 2);
  EXPECT_FALSE(Near("third", "team-a", 8).saw_all);
}

TEST_F(BoundedWalksTest, TheNearestIsOfSoManyKeysAndThatIsSaid) {
  EXPECT_FALSE(Near("another", "team-a", 3).saw_all);  // not loaded yet
  ledger_.SetWhole();
  constexpr int kOthers = 8;
  for (int i = 0; i < kOthers; ++i) Insert(absl::StrCat(i), "team-b");
  Insert("mine", "team-a");
  EXPECT_FALSE(Near("another", "", 3).saw_all);
  EXPECT_LE(indexes_.gets, 5);
  EXPECT_TRUE(Near("another", "", kOthers + 1).saw_all);
  EXPECT_FALSE(Near("another", "team-b", 3).saw_all);
  EXPECT_LE(indexes_.gets, 5);
  EXPECT_TRUE(Near("another", "team-b", kOthers).saw_all);
  // Others' keys are not looked at.
  const Nearness of_team = Near("another", "team-a", 3);
  EXPECT_LE(indexes_.gets, 2);
  EXPECT_TRUE(of_team.saw_all);
  ASSERT_TRUE(of_team.nearest.has_value());
  EXPECT_EQ(of_team.nearest->entry.cache_namespace, "team-a");
  // What was asked for is found, wherever it is.
  const Nearness itself = Near("0", "", 0);
  ASSERT_TRUE(itself.nearest.has_value());
  EXPECT_EQ(itself.nearest->entry.compile_key, KeyOfName("0", "team-b"));
  EXPECT_EQ(itself.nearest->difference.part, "");
}

TEST_F(BoundedWalksTest, AGraphsOtherKeysAreFoundWithoutAWalk) {
  for (int i = 0; i < 8; ++i) Insert(absl::StrCat(i), "team-b");
  Insert("graph", "team-b", "an older compiler");
  Insert("graph", "team-a", "an older compiler");
  for (const char* among : {"", "team-b", "team-a"}) {
    const Nearness near = Near("graph", among, 0);
    ASSERT_TRUE(near.nearest.has_value()) << among;
    EXPECT_EQ(near.nearest->entry.compile_key,
              KeyNamed("graph", *among ? among : "team-b", "an older compiler")
                  .digest);
    // The asked key's own, which is not there, and the one.
    EXPECT_EQ(indexes_.gets, 2) << among;
    EXPECT_FALSE(near.saw_all);
  }
  EXPECT_EQ(Near("graph", "", 0).nearest->difference.part, "compiler");
  // It tells nobody of what is gone.
  ASSERT_TRUE(cache_.Purge({.cache_namespace = "team-b", .all = true}).ok());
  EXPECT_FALSE(Near("graph", "team-b", 8).nearest.has_value());
}

// As after an upgrade, or where the list was evicted.
TEST_F(BoundedWalksTest, AListThatBeginsAnewHidesNoNearerKey) {
  ledger_.SetWhole();
  Insert("graph", "team-b", "an older compiler");
  ASSERT_TRUE(graphs_
                  .Scan([this](const Digest& record, int64_t) {
                    return graphs_.Delete(record);
                  })
                  .ok());
  NewEntry farther;
  const std::vector<KeyPart> parts = KeyNamed("graph", "team-b").parts;
  RequestDigest request;
  request.parts.assign(parts.begin(), parts.begin() + 3);
  request.total = TotalOf(request.parts);
  wire::Target target;
  target.mutable_cpu()->set_level("x86-64");
  farther.key = MakeCompileKey(
      request,
      {Sha256Of("a newer compiler"), "a newer compiler", "g++ 13", "nvrtc 13"},
      target);
  farther.cache_namespace = "team-b";
  ASSERT_EQ(cache_.Insert(std::move(farther)), absl::OkStatus());
  for (int i = 0; i < 8; ++i) Insert(absl::StrCat(i), "team-b");
  const Nearness near = Near("graph", "team-b", 2000);
  EXPECT_TRUE(near.saw_all);
  EXPECT_EQ(near.nearest->entry.compile_key,
            KeyNamed("graph", "team-b", "an older compiler").digest);
  // Where there are too many to look at, that is said.
  for (int i = 0; i < 80; ++i) Insert(absl::StrCat("more ", i), "team-b");
  EXPECT_FALSE(Near("graph", "team-b", 2000).saw_all);
  EXPECT_LT(indexes_.gets, 80);
}

TEST_F(BoundedWalksTest, WhatIsKnownOfAGraphsKeysIsBounded) {
  Insert("graph", "team-b", "the first compiler");
  for (size_t i = 0; i < GraphKeys::kMost; ++i)
    Insert("graph", "team-b", absl::StrCat("compiler ", i));
  ledger_.SetWhole();
  const std::vector<Digest> known =
      GraphKeys(graphs_).Find(Sha256Of("graph"), Sha256Of("team-b"));
  ASSERT_EQ(known.size(), GraphKeys::kMost);
  EXPECT_EQ(known.back(), KeyNamed("graph", "team-b", "compiler 0").digest);
  // So there may be more, and a walk goes on.
  const Nearness near = Near("graph", "team-b", 1);
  EXPECT_TRUE(near.nearest.has_value());
  EXPECT_FALSE(near.saw_all);
  EXPECT_TRUE(Near("graph", "team-b", GraphKeys::kMost + 1).saw_all);
}

// A record may claim the digest of a graph that its namespace never compiled.
TEST_F(BoundedWalksTest, AGraphsLinesAreToldToTheNamespaceThatCompiledIt) {
  NewEntry compiled;
  compiled.key = KeyNamed("graph", "team-a");
  compiled.cache_namespace = "team-a";
  compiled.graph_text = "a line of team-a";
  ASSERT_TRUE(cache_.Insert(std::move(compiled)).ok());
  Insert("graph", "team-b");
  const auto shown = [this](absl::string_view team) {
    return cache_.Show(KeyOfName("graph", team).Hex())->graph_text;
  };
  EXPECT_EQ(shown("team-a"), "a line of team-a");
  EXPECT_EQ(shown("team-b"), "");
  const auto difference = [this](absl::string_view team) {
    return cache_
        .Nearest(KeyNamed("another", team).parts, "a line of another", team)
        ->nearest->graph_difference;
  };
  EXPECT_NE(difference("team-a"), "");
  EXPECT_EQ(difference("team-b"), "");
}

TEST(GraphKeys, HaveTheLastInFrontAndEachOnce) {
  MemoryBlobStore store;
  GraphKeys keys(store);
  const Digest graph = Sha256Of("graph"), team = Sha256Of("team");
  for (const char* key : {"a", "b", "a"})
    ASSERT_TRUE(keys.Add(graph, team, Sha256Of(key)).ok());
  EXPECT_EQ(keys.Find(graph, team),
            (std::vector<Digest>{Sha256Of("b"), Sha256Of("a")}));
  EXPECT_TRUE(keys.Find(graph, Sha256Of("another team")).empty());
  EXPECT_TRUE(keys.Find(Sha256Of("another"), team).empty());
}

// What another build may have put there.
TEST(GraphKeys, BeginAnewWhereTheRecordIsNone) {
  MemoryBlobStore store;
  GraphKeys keys(store);
  const Digest graph = Sha256Of("graph"), team = Sha256Of("team");
  ASSERT_TRUE(keys.Add(graph, team, Sha256Of("a")).ok());
  std::vector<Digest> records;
  ASSERT_TRUE(store
                  .Scan([&](const Digest& record, int64_t) {
                    records.push_back(record);
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_EQ(records.size(), 1u);
  ASSERT_TRUE(store.Put(records[0], "no keys").ok());
  EXPECT_TRUE(keys.Find(graph, team).empty());
  ASSERT_TRUE(keys.Add(graph, team, Sha256Of("b")).ok());
  EXPECT_EQ(keys.Find(graph, team), std::vector<Digest>{Sha256Of("b")});
}

}  // namespace
}  // namespace kiln

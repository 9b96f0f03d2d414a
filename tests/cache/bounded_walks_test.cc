#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/artifact_cache.h"
#include "cache/memory_blob_store.h"
#include "tests/support/faulty_blob_store.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

class BoundedWalksTest : public testing::Test {
 protected:
  void Insert(const std::string& name, const std::string& cache_namespace) {
    NewEntry entry;
    entry.key = KeyNamed(name, cache_namespace);
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

TEST_F(BoundedWalksTest, TheNearestIsOfSoManyKeysAndThatIsSaid) {
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

}  // namespace
}  // namespace kiln

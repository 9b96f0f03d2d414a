#include "server/cache_admin.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/artifact_cache.h"
#include "cache/memory_blob_store.h"
#include "proto/base/status.h"
#include "tests/proto/key/sample_graph.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

// One key more than a page looks at.
constexpr int64_t kKeys = kPageKeys + 1;
static_assert(ArtifactCache::kMostLooked < kKeys);

class CacheAdminTest : public testing::Test {
 protected:
  CacheAdminTest() {
    for (int64_t i = 0; i < kKeys; ++i) {
      NewEntry entry;
      entry.key = KeyNamed(absl::StrCat("model ", i), "team-b");
      entry.cache_namespace = "team-b";
      EXPECT_EQ(cache_.Insert(std::move(entry)), absl::OkStatus());
    }
  }

  FakeClock clock_;
  const KeyRing keys_{*SigningKey::Generate()};
  MemoryBlobStore entries_, indexes_, graphs_, winners_;
  MemoryRows facts_, uses_;
  Ledger ledger_{facts_, uses_, clock_};
  ArtifactCache cache_{{.entries = {entries_, entries_},
                        .indexes = {indexes_, indexes_},
                        .graphs = graphs_,
                        .ledger = ledger_,
                        .keys = keys_}};
  TuningCache tuning_{winners_};
  const BuildIdentity build_ = {Sha256Of("compiler"), "c1", "g++ 12",
                                "nvrtc 13"};
};

TEST_F(CacheAdminTest, AnAnswerForASmallNamespaceDoesNotReadAGreatOne) {
  wire::ListRequest list;
  list.set_cache_namespace("team-a");
  auto page = ListEntries(cache_, list, nullptr);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->entries_size(), 0);
  ASSERT_NE(page->next(), "");  // there are more to look at
  list.set_after(page->next());
  page = ListEntries(cache_, list, nullptr);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->next(), "");

  EXPECT_TRUE(absl::IsInvalidArgument(cache_.Show("", "team-a").status()));
  wire::ExplainRequest by_key;
  const auto none =
      ExplainKey(cache_, tuning_, build_, by_key, "team-a", nullptr);
  EXPECT_EQ(ReasonOf(none.status()), ErrorReason::kBadOption);
  EXPECT_TRUE(absl::StrContains(none.status().message(), "more digits"));
}

TEST_F(CacheAdminTest, AnExplanationSaysThatThereAreMoreKeys) {
  ledger_.SetWhole();
  wire::ExplainRequest asked;
  *asked.mutable_request() = SampleRequest();
  for (const char* among : {"", "team-b"}) {
    const auto reply =
        ExplainKey(cache_, tuning_, build_, asked, among, nullptr);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->has_nearest());
    EXPECT_TRUE(absl::StrContains(reply->detail(), "there are more"))
        << reply->detail();
  }
  const auto small =
      ExplainKey(cache_, tuning_, build_, asked, "team-a", nullptr);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_FALSE(small->has_nearest());
  EXPECT_EQ(small->detail(), "");
}

}  // namespace
}  // namespace kiln

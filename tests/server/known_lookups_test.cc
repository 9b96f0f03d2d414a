// Requests are read once, and no other daemon's or build's answer comes of it.
#include "server/known_lookups.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/digest.h"

namespace kiln {
namespace {

using Build = std::shared_ptr<const BuildIdentity>;

std::shared_ptr<const LookupAsk> AskFor(const std::string& what,
                                        const Build& build) {
  return std::make_shared<const LookupAsk>(
      LookupAsk{.key = Sha256Of(what), .build = build});
}

TEST(KnownLookups, AreFoundByTheirVeryBytes) {
  KnownLookups known;
  const auto build = std::make_shared<const BuildIdentity>();
  EXPECT_EQ(known.Find("a", build), nullptr);
  const auto ask = AskFor("a", build);
  known.Keep("a", ask);
  EXPECT_EQ(known.Find("a", build), ask);
  EXPECT_EQ(known.Find("b", build), nullptr);
  EXPECT_EQ(known.Find(std::string("a\0", 2), build), nullptr);
}

TEST(KnownLookups, OfAnotherBuildAreReadAnew) {
  KnownLookups known;
  const auto build = std::make_shared<const BuildIdentity>();
  const auto later = std::make_shared<const BuildIdentity>();
  known.Keep("a", AskFor("a", build));
  EXPECT_EQ(known.Find("a", later), nullptr);
  const auto ask = AskFor("a", later);
  known.Keep("a", ask);
  EXPECT_EQ(known.Find("a", later), ask);
  EXPECT_EQ(known.Find("a", build), nullptr);
}

TEST(KnownLookups, ThatNobodyAsksForGiveWay) {
  KnownLookups known;
  const auto build = std::make_shared<const BuildIdentity>();
  known.Keep("asked for", AskFor("asked for", build));
  known.Keep("left", AskFor("left", build));
  for (size_t i = 0; i < 3 * KnownLookups::kMost; ++i) {
    known.Keep(absl::StrCat(i), AskFor("other", build));
    EXPECT_LE(known.known(), KnownLookups::kMost);
    ASSERT_NE(known.Find("asked for", build), nullptr) << i;
  }
  EXPECT_EQ(known.Find("left", build), nullptr);
}

TEST(KnownLookups, ThatAreLongAreNotKept) {
  KnownLookups known;
  const auto build = std::make_shared<const BuildIdentity>();
  const std::string longest(KnownLookups::kMostBytes, 'x');
  known.Keep(longest, AskFor("longest", build));
  known.Keep(longest + "x", AskFor("longer", build));
  EXPECT_NE(known.Find(longest, build), nullptr);
  EXPECT_EQ(known.Find(longest + "x", build), nullptr);
  EXPECT_EQ(known.known(), 1u);
}

TEST(KnownLookups, ThatSayMoreThanCanBeKeptAreNotKept) {
  KnownLookups known;
  const auto build = std::make_shared<const BuildIdentity>();
  const auto keeps = [&](const std::string& what, const LookupAsk& ask) {
    known.Keep(what, std::make_shared<const LookupAsk>(ask));
    return known.Find(what, build) != nullptr;
  };
  LookupAsk usual = {.build = build, .values = {1, 2, 3}};
  usual.target.mutable_cpu()->set_level("x86-64-v4");
  usual.cache_namespace = std::string(64, 'n');
  EXPECT_TRUE(keeps("usual", usual));

  // Empty groups of a field that nobody knows: two bytes each, and an object.
  LookupAsk groups = usual;
  std::string unknown;
  for (int i = 0; i < 200; ++i) unknown += "\x7b\x7c";
  ASSERT_TRUE(groups.target.MergeFromString(unknown));
  EXPECT_FALSE(keeps("groups", groups));

  LookupAsk values = usual;
  values.values.assign(400, 1);
  EXPECT_FALSE(keeps("values", values));

  LookupAsk name = usual;
  name.cache_namespace = std::string(2 * KnownLookups::kMostAskBytes, 'n');
  EXPECT_FALSE(keeps("name", name));
  EXPECT_EQ(known.known(), 1u);
}

}  // namespace
}  // namespace kiln

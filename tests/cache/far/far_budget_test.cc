#include "cache/far/far_budget.h"

#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr absl::Duration kLife = absl::Hours(24 * 14);

struct Writes {
  bool Write(const char* cache_namespace, int64_t bytes) {
    if (!budget.Fits(cache_namespace, bytes, now)) return false;
    budget.Spend(cache_namespace, bytes, now);
    return true;
  }
  FarBudget budget{{{"team-a", 1000}, {"*", 100}}, kLife};
  SteadyTime now = SteadyNow();
};

TEST(FarBudget, ANamespaceHasItsOwnAndEachOtherTheOneOfAll) {
  Writes w;
  EXPECT_TRUE(w.Write("team-a", 1000));
  EXPECT_FALSE(w.Write("team-a", 1));
  EXPECT_TRUE(w.Write("team-b", 100));
  EXPECT_FALSE(w.Write("team-b", 1));
  EXPECT_TRUE(w.Write("team-c", 60));
  // What is refused is not spent.
  EXPECT_FALSE(w.Write("team-c", 60));
  EXPECT_TRUE(w.Write("team-c", 40));
}

TEST(FarBudget, WhatHasRunOutCountsNoMore) {
  Writes w;
  EXPECT_TRUE(w.Write("team-a", 600));
  w.now = After(w.now, kLife / 2);
  EXPECT_TRUE(w.Write("team-a", 400));
  EXPECT_FALSE(w.Write("team-a", 1));
  // Never sooner than it is gone from the store.
  w.now = After(w.now, kLife / 2 - absl::Seconds(1));
  EXPECT_FALSE(w.Write("team-a", 1));
  w.now = After(w.now, kLife / 15);
  EXPECT_TRUE(w.Write("team-a", 600));
  EXPECT_FALSE(w.Write("team-a", 1));
  w.now = After(w.now, kLife * 100);
  EXPECT_TRUE(w.Write("team-a", 1000));
}

TEST(FarBudget, NoBudgetIsNoBound) {
  FarBudget budget({}, kLife);
  const SteadyTime now = SteadyNow();
  budget.Spend("team-a", int64_t{1} << 60, now);
  EXPECT_TRUE(budget.Fits("team-a", int64_t{1} << 60, now));
}

}  // namespace
}  // namespace kiln

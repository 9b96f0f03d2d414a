#include "server/quarantine.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Room {
  void Add(const std::string& name, const std::string& caller = "") {
    quarantine.Add(Sha256Of(name), {.key = Sha256Of(absl::StrCat("key ", name)),
                                    .graph_name = name,
                                    .caller = caller,
                                    .why = "ended by signal 11"});
  }
  absl::Status Check(const std::string& name, const std::string& caller = "") {
    return quarantine.Check(Sha256Of(name), caller);
  }

  FakeClock clock;
  Quarantine quarantine{clock, absl::Minutes(5)};
};

TEST(Quarantine, AJobIsRefusedByNameUntilItsTimeHasPassed) {
  Room r;
  EXPECT_TRUE(r.Check("a").ok());
  r.Add("a");
  const absl::Status refused = r.Check("a");
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kJobPoisoned);
  EXPECT_TRUE(absl::StrContains(refused.message(), "graph a")) << refused;
  EXPECT_TRUE(r.Check("b").ok());
  r.clock.Advance(absl::Minutes(5));
  EXPECT_TRUE(r.Check("a").ok());
}

TEST(Quarantine, ACallerWhoseJobsKeepEndingWorkersCannotDodgeItByAnotherTag) {
  Room r;
  for (int tag = 0; tag < Quarantine::kJobsACaller; ++tag) {
    EXPECT_TRUE(r.Check(absl::StrCat("bomb ", tag), "mallory").ok()) << tag;
    r.Add(absl::StrCat("bomb ", tag), "mallory");
  }
  const absl::Status refused = r.Check("another bomb", "mallory");
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kJobPoisoned);
  EXPECT_TRUE(absl::StrContains(refused.message(), "mallory")) << refused;
  EXPECT_TRUE(r.Check("another bomb", "alice").ok());
  r.clock.Advance(absl::Minutes(5));
  EXPECT_TRUE(r.Check("another bomb", "mallory").ok());
}

TEST(Quarantine, WhatIsClearedMayBeTriedAgain) {
  Room r;
  for (const char* name : {"a", "b"}) r.Add(name, "caller");
  EXPECT_EQ(r.quarantine.List().size(), 2u);
  EXPECT_EQ(r.quarantine.Clear(Sha256Of("key a").Hex().substr(0, 12)), 1);
  EXPECT_TRUE(r.Check("a").ok());
  EXPECT_FALSE(r.Check("b").ok());
  EXPECT_EQ(r.quarantine.Clear(""), 1);
  EXPECT_TRUE(r.Check("b").ok());
}

TEST(Quarantine, HoldsABoundedNumber) {
  Room r;
  for (int i = 0; i < Quarantine::kMaxJobs + 10; ++i) {
    r.Add(absl::StrCat(i), absl::StrCat("caller ", i));
    r.clock.Advance(absl::Milliseconds(1));
  }
  EXPECT_EQ(r.quarantine.List().size(), size_t{Quarantine::kMaxJobs});
  EXPECT_TRUE(r.Check("0").ok());  // the oldest made way
  EXPECT_FALSE(r.Check("20").ok());
}

}  // namespace
}  // namespace kiln

// Callers of different namespaces at one daemon.

#include <gtest/gtest.h>

#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using wire::CompileResult;

TEST(Namespaces, TheyShareUnitsAndNoArtifact) {
  TestDaemon d;
  wire::CompileRequest request = FakeRequest({"fake.units.1"});
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  request.set_cache_namespace("team-a");
  EXPECT_EQ(d.client().Lookup(LookupFor(request))->outcome(),
            wire::LookupReply::OUTCOME_MISS);
  const CompileAnswer other = d.client().Compile(request);
  ASSERT_TRUE(other.status.ok()) << other.status;
  EXPECT_EQ(other.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(other.result.units_cached(), 1u);
  EXPECT_EQ(d.client().Lookup(LookupFor(request))->outcome(),
            wire::LookupReply::OUTCOME_HIT);
  wire::LookupRequest bad = LookupFor(request);
  bad.set_cache_namespace("Team A");
  EXPECT_EQ(ReasonOf(d.client().Lookup(bad).status()), ErrorReason::kBadOption);
}

}  // namespace
}  // namespace kiln

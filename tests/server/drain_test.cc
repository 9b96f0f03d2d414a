// The end of a whole daemon behind a real socket.
#include <filesystem>

#include "gtest/gtest.h"
#include "server/daemon.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

// Far more than a test may take: a drain that waited for it would not end.
void WithLongDrain(Config& config) { config.drain_timeout = absl::Hours(1); }

TEST(Drain, AClientThatIsMerelyConnectedHoldsNothingUp) {
  TestDaemon d(WithLongDrain);
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.units.1"})).status.ok());
  EXPECT_TRUE(d.daemon().Drain());
}

TEST(Drain, LeavesNeitherASocketNorItsLock) {
  TestDaemon d(WithLongDrain);
  EXPECT_TRUE(std::filesystem::exists(d.config().socket + ".lock"));
  EXPECT_TRUE(d.daemon().Drain());
  EXPECT_FALSE(std::filesystem::exists(d.config().socket));
  EXPECT_FALSE(std::filesystem::exists(d.config().socket + ".lock"));
}

}  // namespace
}  // namespace kiln

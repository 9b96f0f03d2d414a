#include "client/daemon_routes.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "tests/support/null_session.h"
#include "tests/support/test_daemon.h"

// Sessions that know several daemons.

namespace kiln {
namespace {

std::vector<std::string> Named(const std::vector<std::string>& places,
                               const std::string& digest) {
  std::vector<std::string> named;
  for (const size_t number : OrderOfPlaces(places, digest))
    named.push_back(places[number]);
  return named;
}

TEST(OrderOfPlaces, IsTheSameInWhateverOrderTheyAreNamed) {
  const std::vector<std::string> places = {"unix:/a", "b:1", "c:2", "d:3"};
  std::vector<std::string> otherwise = {"d:3", "b:1", "unix:/a", "c:2"};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(Named(places, absl::StrCat(i)),
              Named(otherwise, absl::StrCat(i)));
}

TEST(OrderOfPlaces, SharesRequestsOutAndMovesThoseOfAPlaceThatGoesAlone) {
  const std::vector<std::string> places = {"a:1", "b:1", "c:1"};
  const std::vector<std::string> left = {"a:1", "c:1"};
  int of_b = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto before = Named(places, absl::StrCat(i));
    of_b += before[0] == "b:1";
    EXPECT_EQ(Named(left, absl::StrCat(i))[0],
              before[0] == "b:1" ? before[1] : before[0]);
  }
  EXPECT_GT(of_b, 800);
  EXPECT_LT(of_b, 1200);
}

class ThreeDaemons : public testing::Test {
 protected:
  // A session that names them from the given one on.
  std::shared_ptr<Session> Open(size_t first) {
    SessionOptions options =
        NullSessionOptions(daemons_[first].config().socket);
    for (size_t i = 1; i < 3; ++i) {
      DaemonAddress other = options.daemon;
      other.socket = daemons_[(first + i) % 3].config().socket;
      options.more_daemons.push_back(other);
    }
    auto session = Session::Open(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }

  std::vector<int64_t> Plans() const {
    std::vector<int64_t> plans;
    for (const TestDaemon& daemon : daemons_)
      plans.push_back(daemon.count(Count::kPlans));
    return plans;
  }
  int64_t AllPlans() const {
    int64_t all = 0;
    for (const int64_t plans : Plans()) all += plans;
    return all;
  }

  TestDaemon daemons_[3];
};

TEST_F(ThreeDaemons, CompileEachGraphOnceForSessionsThatNameThemInAnyOrder) {
  constexpr int kGraphs = 24;
  for (size_t first = 0; first < 3; ++first) {
    const auto session = Open(first);
    for (int g = 0; g < kGraphs; ++g) {
      EXPECT_FALSE(ReportOf(session, absl::StrCat("fake.units.", g + 1))
                       .by_local_worker);
    }
  }
  EXPECT_EQ(AllPlans(), kGraphs);
  for (const int64_t plans : Plans()) EXPECT_GT(plans, 0);
}

TEST_F(ThreeDaemons, GoOnWithTheNextWhereOneIsGone) {
  constexpr int kGraphs = 24;
  const auto session = Open(0);
  daemons_[1].Stop();
  for (int g = 0; g < kGraphs; ++g) {
    EXPECT_FALSE(
        ReportOf(session, absl::StrCat("fake.units.", g + 1)).by_local_worker);
  }
  EXPECT_EQ(daemons_[0].count(Count::kPlans) + daemons_[2].count(Count::kPlans),
            kGraphs);
}

TEST_F(ThreeDaemons, AreReachedThoughTheFirstWasNeverThere) {
  daemons_[0].Stop();
  const auto session = Open(0);
  EXPECT_FALSE(ReportOf(session, "fake.units.1").by_local_worker);
}

TEST_F(ThreeDaemons, LeaveALocalWorkerToCompileWhenAllAreGone) {
  const auto session = Open(0);
  for (TestDaemon& daemon : daemons_) daemon.Stop();
  const CompileReport report = ReportOf(session, "fake.units.1");
  EXPECT_TRUE(report.by_local_worker);
  EXPECT_TRUE(absl::IsUnavailable(report.daemon_status))
      << report.daemon_status;
}

}  // namespace
}  // namespace kiln

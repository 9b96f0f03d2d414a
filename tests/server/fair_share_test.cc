#include "server/fair_share.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/config.h"

namespace kiln {
namespace {

// Takes until it is refused; how often it was not.
int TakeAll(FairShare& share, const std::string& holder, int64_t bytes,
            std::vector<FairShare::Part>& parts) {
  for (int taken = 0;; ++taken) {
    auto part = share.Take(holder, bytes);
    if (!part.ok()) {
      EXPECT_EQ(ReasonOf(part.status()), ErrorReason::kQueueFull);
      return taken;
    }
    parts.push_back(*std::move(part));
  }
}

TEST(FairShare, OneAloneGetsHalfAndWhoComesNextFindsRoom) {
  FairShare share("calls of", {.places = 120});
  std::vector<FairShare::Part> a, b, c;
  EXPECT_EQ(TakeAll(share, "a", 0, a), 60);
  EXPECT_EQ(TakeAll(share, "b", 0, b), 30);
  EXPECT_EQ(TakeAll(share, "c", 0, c), 15);
  // What was given back is shared anew.
  a.clear();
  EXPECT_EQ(TakeAll(share, "b", 0, b), 23);
}

TEST(FairShare, AThousandTakersLeaveAPlaceForOneMore) {
  FairShare share("calls of", {.places = 16384});
  std::vector<FairShare::Part> parts;
  for (int i = 0; i < 8; ++i)
    EXPECT_GT(TakeAll(share, absl::StrCat("taker", i), 0, parts), 0);
  EXPECT_TRUE(share.Take("one more").ok());
}

TEST(FairShare, TenThousandRanksOfOneCallerFitInADaemonAsItComes) {
  const int64_t places = Config().max_waiting_calls;
  FairShare callers("calls of", {.places = places});
  std::vector<FairShare::Part> parts;
  EXPECT_GE(TakeAll(callers, "ranks", 0, parts), 10000);
  EXPECT_TRUE(callers.Take("another").ok());
}

TEST(FairShare, BytesAreSharedAsPlacesAre) {
  FairShare share("calls of", {.places = 100, .bytes = 1000});
  std::vector<FairShare::Part> a, b;
  EXPECT_EQ(TakeAll(share, "a", 100, a), 5);
  EXPECT_EQ(TakeAll(share, "b", 100, b), 3);
  // What is larger than all that is left is nobody's.
  EXPECT_FALSE(share.Take("c", 300).ok());
  EXPECT_TRUE(share.Take("c", 200).ok());
}

TEST(FairShare, ARatioIsGivenToNamespaces) {
  FairShare share("jobs of", {.places = 100}, /*ratio=*/3);
  std::vector<FairShare::Part> a;
  EXPECT_EQ(TakeAll(share, "a", 0, a), 75);
}

TEST(FairShare, WhoHasNothingGetsTheLastPlace) {
  FairShare share("calls of", {.places = 1});
  auto only = share.Take("a");
  ASSERT_TRUE(only.ok());
  const auto second = share.Take("b");
  EXPECT_TRUE(absl::StrContains(second.status().message(),
                                "calls of b: found 0 with 0 bytes, and 0 "
                                "places"))
      << second.status();
  only->Release();
  EXPECT_TRUE(share.Take("b").ok());
}

TEST(FairShare, AMovedPartIsGivenBackOnce) {
  FairShare share("calls of", {.places = 2});
  auto part = share.Take("a");
  ASSERT_TRUE(part.ok());
  FairShare::Part other = *std::move(part);
  FairShare::Part third;
  third = std::move(other);
  third.Release();
  third.Release();
  std::vector<FairShare::Part> all;
  EXPECT_EQ(TakeAll(share, "a", 0, all), 1);
  EXPECT_EQ(TakeAll(share, "b", 0, all), 1);
}

}  // namespace
}  // namespace kiln

// Calls are counted from their headers on, before any handler runs.
#include "server/begun_calls.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/clock.h"

namespace kiln {
namespace {

constexpr BegunCalls::Limits kLimits = {
    .at_once = 4, .of_a_connection = 10, .beyond = 12};

class Begun : public testing::Test {
 protected:
  // How many of a hundred calls of the connection are taken.
  int Flood(uint64_t connection) {
    int taken = 0;
    for (int i = 0; i < 100; ++i) taken += calls_.Begin(connection);
    return taken;
  }

  FakeClock clock_;
  BegunCalls calls_{kLimits, clock_};
};

TEST_F(Begun, AConnectionHasSoManyAndTheRestAreRefused) {
  EXPECT_EQ(Flood(1), 10);
  const auto heard = calls_.Hear(1);
  EXPECT_TRUE(heard.others_refused());  // told once
  EXPECT_FALSE(calls_.Hear(1).others_refused());
  // One has ended, and one is under way.
  EXPECT_EQ(Flood(1), 1);
}

TEST_F(Begun, AllConnectionsShareWhatIsBeyondHttp2sLimit) {
  // Six of twelve, then no more than are left, and so on.
  EXPECT_EQ(Flood(1), 4 + 6);
  EXPECT_EQ(Flood(2), 4 + 3);
  EXPECT_EQ(Flood(3), 4 + 2);
  EXPECT_EQ(Flood(4), 4 + 1);
  EXPECT_EQ(Flood(5), 4);
  // What HTTP/2 lets a connection have is never refused.
  for (uint64_t connection = 6; connection < 100; ++connection)
    EXPECT_EQ(Flood(connection), 4);
}

TEST_F(Begun, AnEndGivesThePlaceBack) {
  std::vector<BegunCalls::Heard> heard;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(calls_.Begin(1));
    heard.push_back(calls_.Hear(1));
  }
  EXPECT_FALSE(calls_.Begin(1));
  heard.clear();
  EXPECT_EQ(Flood(1), 10);
}

TEST_F(Begun, CallsThatAreAnsweredAndNotEndedYetAreRefusedButNoFlood) {
  std::vector<BegunCalls::Heard> answered;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(calls_.Begin(1));
    answered.push_back(calls_.Hear(1));
    answered.back().HearAnswer();
  }
  EXPECT_FALSE(calls_.Begin(1));
  answered.pop_back();
  ASSERT_TRUE(calls_.Begin(1));
  EXPECT_FALSE(calls_.Hear(1).others_refused());
  // All but six of them end, and others begin that nobody answers: more than four.
  answered.resize(6);
  EXPECT_EQ(Flood(1), 4);
  EXPECT_TRUE(calls_.Hear(1).others_refused());
}

TEST_F(Begun, ACallThatNeverComesIsForgottenAndOneUnderWayIsNot) {
  ASSERT_TRUE(calls_.Begin(1));
  const auto heard = calls_.Hear(1);
  EXPECT_EQ(Flood(1), 9);
  // The calls of a period are there at its end, and gone at the next one's.
  clock_.Advance(BegunCalls::kForgotten);
  EXPECT_EQ(Flood(1), 0);
  clock_.Advance(BegunCalls::kForgotten);
  EXPECT_EQ(Flood(1), 9);
}

TEST_F(Begun, OfConnectionsWithoutCallsNothingIsKept) {
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t connection = calls_.NewConnection();
    ASSERT_TRUE(calls_.Begin(connection));
    const auto heard = calls_.Hear(connection);
  }
  EXPECT_EQ(calls_.known_connections(), 0u);
  for (int i = 0; i < 10'000; ++i) calls_.Begin(calls_.NewConnection());
  clock_.Advance(BegunCalls::kForgotten);
  calls_.Begin(1);
  clock_.Advance(BegunCalls::kForgotten);
  calls_.Begin(2);
  EXPECT_LE(calls_.known_connections(), 2u);
}

}  // namespace
}  // namespace kiln

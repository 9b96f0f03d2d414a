#include "proto/base/circuit_breaker.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr absl::Duration kPause = absl::Seconds(60);
const SteadyTime kStart = SteadyTime(std::chrono::hours(1));

TEST(CircuitBreaker, EverybodyMayAskOneWhoAnswers) {
  CircuitBreaker breaker(kPause);
  EXPECT_TRUE(breaker.MayAsk(kStart));
  EXPECT_TRUE(breaker.MayAsk(kStart));
  breaker.Answered();
  EXPECT_TRUE(breaker.MayAsk(kStart));
}

TEST(CircuitBreaker, OneWhoKeptSilentIsAskedOnceAPause) {
  CircuitBreaker breaker(kPause);
  breaker.KeptSilent(kStart);
  EXPECT_FALSE(breaker.MayAsk(kStart));
  EXPECT_FALSE(breaker.MayAsk(After(kStart, kPause - absl::Nanoseconds(1))));
  EXPECT_TRUE(breaker.MayAsk(After(kStart, kPause)));
  EXPECT_FALSE(breaker.MayAsk(After(kStart, kPause)));
  EXPECT_FALSE(
      breaker.MayAsk(After(kStart, 2 * kPause - absl::Nanoseconds(1))));
  EXPECT_TRUE(breaker.MayAsk(After(kStart, 2 * kPause)));
}

TEST(CircuitBreaker, APauseBeginsWhenTheSilenceIsNoticed) {
  CircuitBreaker breaker(kPause);
  breaker.KeptSilent(kStart);
  EXPECT_TRUE(breaker.MayAsk(After(kStart, kPause)));
  breaker.KeptSilent(After(kStart, kPause + absl::Seconds(10)));
  EXPECT_FALSE(breaker.MayAsk(After(kStart, 2 * kPause)));
  EXPECT_TRUE(breaker.MayAsk(After(kStart, 2 * kPause + absl::Seconds(10))));
}

TEST(CircuitBreaker, AfterAnAnswerEverybodyMayAskAgain) {
  CircuitBreaker breaker(kPause);
  breaker.KeptSilent(kStart);
  EXPECT_TRUE(breaker.MayAsk(After(kStart, kPause)));
  breaker.Answered();
  EXPECT_TRUE(breaker.MayAsk(After(kStart, kPause)));
  EXPECT_TRUE(breaker.MayAsk(After(kStart, kPause)));
}

TEST(CircuitBreaker, WithoutAPauseEverybodyMayAskAlways) {
  CircuitBreaker breaker(absl::ZeroDuration());
  breaker.KeptSilent(kStart);
  EXPECT_TRUE(breaker.MayAsk(kStart));
  EXPECT_TRUE(breaker.MayAsk(kStart));
}

TEST(CircuitBreaker, OfManyThatComeAtOnceAfterAPauseOneMayAsk) {
  CircuitBreaker breaker(kPause);
  breaker.KeptSilent(kStart);
  std::atomic<int> asking = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      if (breaker.MayAsk(After(kStart, kPause))) ++asking;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asking, 1);
}

}  // namespace
}  // namespace kiln

#include "client/timed_lock.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

TEST(TimedLock, OneAtATime) {
  TimedLock turn;
  int count = 0;  // TSan sees it when two have a turn
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto taken = turn.Take(kNever, "count");
        ASSERT_TRUE(taken.ok());
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 800);
}

TEST(TimedLock, AWaitEndsAtItsDeadlineAndNamesWhatItWasFor) {
  TimedLock turn;
  std::optional<TimedLock::Taken> first;
  first.emplace(*turn.Take(SteadyNow(), "first"));
  const absl::Status status = turn.Take(SteadyNow(), "second").status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_NE(status.message().find("second"), std::string::npos) << status;
  first.reset();
  EXPECT_TRUE(turn.Take(SteadyNow(), "third").ok());
}

}  // namespace
}  // namespace kiln

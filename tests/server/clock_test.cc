// Somebody sets the wall's clock while a daemon serves.
#include "proto/base/clock.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

// The machine's clocks, but for what somebody has set the wall's by.
class SetClock final : public Clock {
 public:
  absl::Time Now() const override {
    return real_.Now() + absl::Hours(hours_.load());
  }
  SteadyTime Steady() const override { return real_.Steady(); }
  void SetBy(int hours) { hours_ = hours; }

 private:
  const RealClock real_;
  std::atomic<int> hours_ = 0;
};

class AWallClockThatJumps : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(ADay, AWallClockThatJumps, testing::Values(24, -24));

TEST_P(AWallClockThatJumps, ChangesNothingForJobsHitsAndThePoisoned) {
  const auto clock = std::make_shared<SetClock>();
  TestDaemon d([](Config&) {}, clock);
  const wire::CompileRequest stored = FakeRequest({"fake.salt.stored"});
  ASSERT_TRUE(d.client().Compile(stored).status.ok());
  const wire::CompileRequest poison = FakeRequest({"fake.die.any"});
  EXPECT_EQ(ReasonOf(d.client().Compile(poison).status),
            ErrorReason::kWorkerDied);
  const int64_t started = d.count(Count::kJobsStarted);

  std::thread waits([&d] {
    const CompileAnswer answer =
        d.client().Compile(FakeRequest({"fake.gate.a"}));
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  });
  while (d.count(Count::kJobsStarted) == started) std::this_thread::yield();
  clock->SetBy(GetParam());

  const auto hit = d.client().Lookup(LookupFor(stored));
  ASSERT_TRUE(hit.ok()) << hit.status();
  EXPECT_EQ(hit->outcome(), wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(ReasonOf(d.client().Compile(poison).status),
            ErrorReason::kJobPoisoned);
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.later"})).status.ok());
  d.OpenGate("a");
  waits.join();
  EXPECT_EQ(d.count(Count::kJobsStarted), started + 2);

  clock->SetBy(0);
  ASSERT_TRUE(d.client().Compile(stored).status.ok());
  EXPECT_EQ(d.count(Count::kJobsStarted), started + 2);
}

}  // namespace
}  // namespace kiln

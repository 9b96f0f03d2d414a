// Daemons that share a real Redis, and lack the same key at the same time.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using wire::CompileResult;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Two daemons of one Redis that believe each other, since they have one key.
struct Pair {
  explicit Pair(std::vector<std::string> addresses,
                absl::Duration wait = absl::Minutes(10),
                int workers_of_first = 2, absl::Duration budget = kPatience)
      : first([&](Config& config) {
          config.worker_count = workers_of_first;
          config.far_addresses = addresses;
          config.far_budget = budget;
          config.far_lease_wait = wait;
        }),
        second([&](Config& config) {
          config.far_addresses = addresses;
          config.far_budget = budget;
          config.far_lease_wait = wait;
          const std::string key = "/signing.key";
          std::filesystem::create_directory(config.data_folder);
          std::filesystem::copy(first.config().data_folder + key,
                                config.data_folder + key);
        }) {}

  int64_t plans() const {
    return first.count(Count::kPlans) + second.count(Count::kPlans);
  }

  TestDaemon first;
  TestDaemon second;
};

void Await(TestDaemon& d, Count count, int64_t due) {
  const SteadyTime deadline = After(SteadyNow(), kPatience);
  while (d.count(count) < due) {
    ASSERT_GT(TimeLeft(deadline), absl::ZeroDuration()) << CountName(count);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// A call on a thread of its own.
class Calling {
 public:
  Calling(TestDaemon& d, wire::CompileRequest request)
      : thread_([this, &d, request = std::move(request)] {
          answer_ = d.client().Compile(request);
        }) {}
  CompileAnswer Answer() {
    thread_.join();
    return answer_;
  }

 private:
  CompileAnswer answer_;
  std::thread thread_;
};

TEST(JobLeases, WhatAnotherDaemonCompilesIsWaitedForAndTaken) {
  RedisServer redis;
  Pair pair({redis.address()});
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  Calling second(pair.second, request);
  Await(pair.second, Count::kLeaseWaited, 1);
  pair.first.OpenGate("a");
  const CompileAnswer made = first.Answer();
  const CompileAnswer taken = second.Answer();
  ASSERT_TRUE(made.status.ok()) << made.status;
  ASSERT_TRUE(taken.status.ok()) << taken.status;
  EXPECT_EQ(made.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(taken.result.served_from(), CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(taken.result.artifact().artifact(),
            made.result.artifact().artifact());
  EXPECT_EQ(pair.plans(), 1);
  EXPECT_EQ(pair.second.count(Count::kLeaseHitsAfterWait), 1);
  EXPECT_EQ(pair.second.count(Count::kLeaseWaitsEnded), 0);
  bool told = false;
  for (const wire::Progress& progress : taken.progress)
    told |= progress.stage() == wire::Progress::STAGE_ELSEWHERE;
  EXPECT_TRUE(told);
}

TEST(JobLeases, OfTwoDaemonsThatBeginAtOnceOneCompiles) {
  RedisServer redis;
  Pair pair({redis.address()});
  for (int i = 1; i <= 20; ++i) {
    const wire::CompileRequest request =
        FakeRequest({absl::StrCat("fake.salt.", i)});
    Calling first(pair.first, request);
    Calling second(pair.second, request);
    ASSERT_TRUE(first.Answer().status.ok());
    ASSERT_TRUE(second.Answer().status.ok());
    EXPECT_EQ(pair.plans(), i);
  }
}

TEST(JobLeases, ACluster) {
  const auto cluster = StartRedisCluster(6);
  Pair pair({cluster[0]->address(), cluster[3]->address()});
  for (int i = 1; i <= 6; ++i) {
    const wire::CompileRequest request =
        FakeRequest({absl::StrCat("fake.salt.", i)});
    Calling first(pair.first, request);
    Calling second(pair.second, request);
    ASSERT_TRUE(first.Answer().status.ok());
    ASSERT_TRUE(second.Answer().status.ok());
    EXPECT_EQ(pair.plans(), i);
  }
  EXPECT_EQ(pair.first.count(Count::kLeaseSkipped), 0);
  EXPECT_EQ(pair.second.count(Count::kLeaseSkipped), 0);
}

TEST(JobLeases, JobsThatWaitCostNoRunner) {
  RedisServer redis;
  // The first has a worker for each; the second has two, and four runners.
  constexpr int kJobs = 8;
  Pair pair({redis.address()}, absl::Minutes(10), /*workers_of_first=*/kJobs);
  std::vector<std::unique_ptr<Calling>> calls;
  const auto request = [](int i) {
    return FakeRequest({absl::StrCat("fake.salt.", i), "fake.gate.a"});
  };
  for (int i = 0; i < kJobs; ++i)
    calls.push_back(std::make_unique<Calling>(pair.first, request(i)));
  Await(pair.first, Count::kLeaseTaken, kJobs);
  for (int i = 0; i < kJobs; ++i)
    calls.push_back(std::make_unique<Calling>(pair.second, request(i)));
  Await(pair.second, Count::kLeaseWaited, kJobs);
  EXPECT_TRUE(
      pair.second.client().Compile(FakeRequest({"fake.salt.x"})).status.ok());
  pair.first.OpenGate("a");
  for (const auto& call : calls) EXPECT_TRUE(call->Answer().status.ok());
  EXPECT_EQ(pair.second.count(Count::kPlans), 1);
  EXPECT_EQ(pair.second.count(Count::kLeaseHitsAfterWait), kJobs);
}

TEST(JobLeases, WhenAllItsCallersHaveLeftAJobThatWaitsIsDropped) {
  RedisServer redis;
  Pair pair({redis.address()});
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  EXPECT_FALSE(
      pair.second.client().Compile(request, absl::Seconds(1)).status.ok());
  Await(pair.second, Count::kJobsCancelled, 1);
  pair.first.OpenGate("a");
  ASSERT_TRUE(first.Answer().status.ok());
  EXPECT_EQ(pair.second.count(Count::kPlans), 0);
}

TEST(JobLeases, ADaemonThatEndsAnswersThoseWhoWait) {
  RedisServer redis;
  Pair pair({redis.address()});
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  Calling second(pair.second, request);
  Await(pair.second, Count::kLeaseWaited, 1);
  pair.second.Stop();
  EXPECT_TRUE(absl::IsUnavailable(second.Answer().status));
  pair.first.OpenGate("a");
  ASSERT_TRUE(first.Answer().status.ok());
}

TEST(JobLeases, AWaitHasAnEnd) {
  RedisServer redis;
  Pair pair({redis.address()}, absl::Seconds(1));
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  pair.second.OpenGate("a");
  const CompileAnswer answer = pair.second.client().Compile(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(pair.second.count(Count::kLeaseWaitsEnded), 1);
  pair.first.OpenGate("a");
  ASSERT_TRUE(first.Answer().status.ok());
}

TEST(JobLeases, WithoutAStoreNobodyWaits) {
  RedisServer redis;
  Pair pair({redis.address()});
  redis.Kill();
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  Calling first(pair.first, request);
  Calling second(pair.second, request);
  ASSERT_TRUE(first.Answer().status.ok());
  ASSERT_TRUE(second.Answer().status.ok());
  EXPECT_EQ(pair.plans(), 2);
  for (TestDaemon* d : {&pair.first, &pair.second}) {
    EXPECT_EQ(d->count(Count::kLeaseWaited), 0);
    EXPECT_EQ(d->count(Count::kLeaseSkipped), 1);
  }
}

TEST(JobLeases, AStoreThatGoesEndsTheWait) {
  RedisServer redis;
  Pair pair({redis.address()}, absl::Minutes(10), /*workers_of_first=*/2,
            /*budget=*/absl::Milliseconds(100));
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  pair.second.OpenGate("a");
  Calling second(pair.second, request);
  Await(pair.second, Count::kLeaseWaited, 1);
  redis.Freeze();
  const CompileAnswer answer = second.Answer();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(pair.second.count(Count::kLeaseSkipped), 1);
  redis.Thaw();
  pair.first.OpenGate("a");
  ASSERT_TRUE(first.Answer().status.ok());
}

// The names of all leases.
std::vector<std::string> Leases(const RedisServer& redis) {
  std::vector<std::string> names;
  for (const RespValue& name :
       AskRedis(redis.place(), {"KEYS", "kiln:2:*:lease:*"}).items)
    names.push_back(name.text);
  return names;
}

TEST(JobLeases, AStolenLeaseIsLostAndStaysTheThiefs) {
  RedisServer redis;
  Pair pair({redis.address()});
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  ASSERT_EQ(Leases(redis).size(), 1u);
  const std::string name = Leases(redis)[0];
  AskRedis(redis.place(), {"SET", name, "thief"});
  Await(pair.first, Count::kLeaseLost, 1);
  pair.first.OpenGate("a");
  ASSERT_TRUE(first.Answer().status.ok());
  // Behind the record: what is written now comes after what was given back.
  ASSERT_TRUE(
      pair.first.client().Compile(FakeRequest({"fake.salt.b"})).status.ok());
  pair.first.Stop();
  EXPECT_EQ(Leases(redis), std::vector<std::string>{name});
  EXPECT_EQ(AskRedis(redis.place(), {"GET", name}).text, "thief");
}

TEST(JobLeases, AFailedJobGivesItsLeaseBack) {
  RedisServer redis;
  Pair pair({redis.address()});
  const wire::CompileRequest request =
      FakeRequest({"fake.gate.a", "fake.error.UNSUPPORTED_OP"});
  Calling first(pair.first, request);
  Await(pair.first, Count::kLeaseTaken, 1);
  Calling second(pair.second, request);
  Await(pair.second, Count::kLeaseWaited, 1);
  pair.second.OpenGate("a");
  pair.first.OpenGate("a");
  EXPECT_EQ(ReasonOf(first.Answer().status), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(ReasonOf(second.Answer().status), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(pair.second.count(Count::kLeaseWaitsEnded), 0);
}

TEST(JobLeases, WhenItsHolderIsKilledTheLeaseRunsOut) {
  RedisServer redis;
  DaemonProcess holder(
      absl::StrCat("[far]\naddresses = [\"", redis.address(), "\"]\n"));
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  std::thread lost(
      [&] { EXPECT_FALSE(holder.client().Compile(request).status.ok()); });
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  while (Leases(redis).empty()) ASSERT_LT(SteadyNow(), patience);

  TestDaemon d([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.far_lease_wait = absl::Minutes(10);
  });
  d.OpenGate("a");
  Calling call(d, request);
  Await(d, Count::kLeaseWaited, 1);
  holder.Kill();
  lost.join();
  const CompileAnswer answer = call.Answer();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(d.count(Count::kLeaseTaken), 1);
  EXPECT_EQ(d.count(Count::kLeaseSkipped), 0);
  EXPECT_EQ(d.count(Count::kLeaseWaitsEnded), 0);
}

}  // namespace
}  // namespace kiln

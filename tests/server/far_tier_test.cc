// Daemons that share a real Redis.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "client/session.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/null_session.h"
#include "tests/support/redis_server.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using wire::CompileResult;

std::shared_ptr<Session> SessionAt(TestDaemon& d) {
  auto session = Session::Open(NullSessionOptions(d.config().socket));
  EXPECT_TRUE(session.ok()) << session.status();
  return *session;
}

void AwaitWrites(TestDaemon& d, int64_t writes) {
  AwaitStat(d, "far.writes", writes);
}

TEST(FarTier, ASecondDaemonWithAnEmptyDiskGetsEverythingByHits) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {KeyHexOf(first)};
  });
  std::vector<std::string> made;
  for (const char* op : {"fake.units.1", "fake.units.2", "fake.salt.a"}) {
    const CompileAnswer answer = first.client().Compile(FakeRequest({op}));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    made.push_back(answer.result.artifact().artifact());
  }
  AwaitWrites(first, 3 + first.count(Count::kUnitsBuilt));

  // One by Lookup, the others by Compile alone.
  const auto looked =
      second.client().Lookup(LookupFor(FakeRequest({"fake.units.1"})));
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_EQ(looked->outcome(), wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(looked->artifact().artifact(), made[0]);
  for (int i = 1; i < 3; ++i) {
    const CompileAnswer answer = second.client().Compile(
        FakeRequest({i == 1 ? "fake.units.2" : "fake.salt.a"}));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_CACHE);
    EXPECT_EQ(answer.result.artifact().artifact(), made[i]);
  }
  EXPECT_EQ(second.count(Count::kPlans), 0);
  EXPECT_EQ(second.count(Count::kUnitsBuilt), 0);
  EXPECT_EQ(StatOf(second, "far.hits"), 3);
  EXPECT_EQ(StatOf(second, "far.refused"), 0);

  // From now on they are near.
  redis.Kill();
  EXPECT_EQ(second.client()
                .Lookup(LookupFor(FakeRequest({"fake.units.1"})))
                ->outcome(),
            wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(StatOf(second, "far.hits"), 3);
}

TEST(FarTier, AClientLoadsFromOneDaemonWhatAnotherSigned) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  ASSERT_TRUE(ReportOf(SessionAt(first), "fake.salt.a").daemon_status.ok());
  AwaitWrites(first, 2);
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {KeyHexOf(first)};
  });
  const CompileReport report = ReportOf(SessionAt(second), "fake.salt.a");
  EXPECT_EQ(report.served_from, CompileResult::SERVED_FROM_CACHE);
  EXPECT_FALSE(report.by_local_worker);
  EXPECT_EQ(second.count(Count::kPlans), 0);
}

TEST(FarTier, WhatAnUntrustedDaemonSignedIsCompiledAgain) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  ASSERT_TRUE(first.client().Compile(FakeRequest({"fake.salt.a"})).status.ok());
  AwaitWrites(first, 2);
  TestDaemon stranger(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  const CompileAnswer answer =
      stranger.client().Compile(FakeRequest({"fake.salt.a"}));
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(StatOf(stranger, "far.hits"), 0);
  // The entry, when it is asked for and when its lease is taken, and its unit.
  EXPECT_EQ(StatOf(stranger, "far.refused"), 3);
  EXPECT_TRUE(absl::StrContains(AuditOf(stranger),
                                "\"who\":\"far\",\"what\":\"get_record\""));
}

TEST(FarTier, UnitsAreSharedWhereTheirGraphIsNot) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {KeyHexOf(first)};
  });
  wire::CompileRequest request = FakeRequest({"fake.units.3"});
  ASSERT_TRUE(first.client().Compile(request).status.ok());
  AwaitWrites(first, 4);
  request.set_cache_namespace("team-a");
  const CompileAnswer answer = second.client().Compile(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(answer.result.units_cached(), 3u);
  EXPECT_EQ(answer.result.units_built(), 0u);
}

TEST(FarTier, WithTheStoreGoneHitsAreAsBeforeAndMissesAreCompiled) {
  RedisServer redis;
  TestDaemon d(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  const wire::CompileRequest known = FakeRequest({"fake.salt.known"});
  ASSERT_TRUE(d.client().Compile(known).status.ok());
  AwaitWrites(d, 2);
  const int64_t asked = StatOf(d, "far.misses");
  redis.Kill();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(d.client().Lookup(LookupFor(known))->outcome(),
              wire::LookupReply::OUTCOME_HIT);
  }
  // Hits ask nobody.
  EXPECT_EQ(StatOf(d, "far.errors") + StatOf(d, "far.timeouts"), 0);
  EXPECT_EQ(StatOf(d, "far.misses"), asked);
  const CompileAnswer missed =
      d.client().Compile(FakeRequest({"fake.salt.other"}));
  ASSERT_TRUE(missed.status.ok()) << missed.status;
  EXPECT_EQ(missed.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_GT(StatOf(d, "far.errors") + StatOf(d, "far.breaker_open"), 0);
}

TEST(FarTier, AFrozenStoreHoldsNobodyUpAndIsAskedAgainLater) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {KeyHexOf(first)};
  });
  const wire::CompileRequest known = FakeRequest({"fake.salt.known"});
  const wire::CompileRequest shared = FakeRequest({"fake.salt.shared"});
  ASSERT_TRUE(second.client().Compile(known).status.ok());
  ASSERT_TRUE(first.client().Compile(shared).status.ok());
  AwaitWrites(first, 2);
  AwaitWrites(second, 2);
  redis.Freeze();
  // The store has it, and does not say so within the budget.
  EXPECT_EQ(second.client().Lookup(LookupFor(shared))->outcome(),
            wire::LookupReply::OUTCOME_MISS);
  EXPECT_EQ(StatOf(second, "far.timeouts"), 1);
  // Nobody else waits for it for a while; on a busy machine the while may be over.
  do {
    EXPECT_EQ(second.client().Lookup(LookupFor(shared))->outcome(),
              wire::LookupReply::OUTCOME_MISS);
  } while (StatOf(second, "far.breaker_open") == 0);
  EXPECT_EQ(second.client().Lookup(LookupFor(known))->outcome(),
            wire::LookupReply::OUTCOME_HIT);
  redis.Thaw();
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(30));
  while (second.client().Lookup(LookupFor(shared))->outcome() !=
         wire::LookupReply::OUTCOME_HIT) {
    ASSERT_LT(SteadyNow(), patience);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(second.count(Count::kPlans), 1);
}

TEST(FarTier, ADaemonConnectsToTheStoreBeforeItIsAsked) {
  RedisServer redis;
  TestDaemon d(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  // Ours, and the daemon's, which nobody has asked for anything.
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(30));
  while (!absl::StrContains(AskRedis(redis.place(), {"INFO", "clients"}).text,
                            "connected_clients:3")) {
    ASSERT_LT(SteadyNow(), patience);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(FarTier, ADaemonStartsWhereTheStoreIsGone) {
  TestDaemon d([&](Config& config) { config.far_addresses = {"127.0.0.1:1"}; });
  ExpectWellAndEmpty(d);
}

TEST(FarTier, ThePasswordIsReadFromAFileThatIsPrivate) {
  RedisServer redis({"--requirepass", "secret-1"});
  ShortFolder folder;
  const std::string file = folder.path() + "/password";
  const auto write = [&file](int mode) {
    std::ofstream(file) << "secret-1\n";
    chmod(file.c_str(), mode);
  };
  Config config = TestConfig(folder.path());
  config.far_addresses = {redis.address()};
  config.far_password_file = file;
  EXPECT_EQ(ReasonOf(Daemon::Start(config, geteuid()).status()),
            ErrorReason::kStorage);
  write(0644);
  EXPECT_EQ(ReasonOf(Daemon::Start(config, geteuid()).status()),
            ErrorReason::kPermission);
  write(0600);
  TestDaemon d([&](Config& c) {
    c.far_addresses = {redis.address()};
    c.far_password_file = file;
  });
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.a"})).status.ok());
  AwaitWrites(d, 2);
}

}  // namespace
}  // namespace kiln

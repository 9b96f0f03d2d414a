// Whole daemons: a real socket, real worker processes, real faults.
#include "server/daemon.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "server/worker_pool.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/health_client.h"
#include "tests/support/reflection_client.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

using ::kiln::wire::CompileResult;
using ::kiln::wire::LookupReply;
using testing::ElementsAre;
using testing::IsEmpty;

// Waits until the daemon has jobs, waiters or workers in a state: each answer
// is a call to it, so it is the daemon's own progress that is waited for.
// Gives up, and says so, long after any machine would have got there.
template <typename Reached>
void WaitUntil(TestDaemon& d, Reached reached) {
  const absl::Time give_up = absl::Now() + absl::Minutes(4);
  while (!reached()) {
    ASSERT_LT(absl::Now(), give_up) << "what was waited for did not come";
    grpc::ClientContext context;
    wire::JobsReply ignored;
    AdminStub(d.client())->Jobs(&context, {}, &ignored);
  }
}

wire::JobsReply JobsOf(TestDaemon& d) {
  grpc::ClientContext context;
  wire::JobsReply jobs;
  AdminStub(d.client())->Jobs(&context, {}, &jobs);
  return jobs;
}

uint32_t WaitersOf(TestDaemon& d) {
  uint32_t waiters = 0;
  const wire::JobsReply jobs = JobsOf(d);
  for (const wire::Job& job : jobs.jobs()) waiters += job.waiters();
  return waiters;
}

TEST(Daemon, AMissThatIsLookedUpAndThenCompiledIsOne) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  EXPECT_EQ(d.client().Lookup(LookupFor(request))->outcome(),
            wire::LookupReply::OUTCOME_MISS);
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  EXPECT_EQ(d.count(Count::kCacheMisses), 1);
}

TEST(Daemon, AGraphIsCompiledThenFoundAlsoAfterARestart) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.units.3"});
  const CompileAnswer first = d.client().Compile(request);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(first.result.units_built(), 3u);
  EXPECT_FALSE(first.progress.empty());
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(first.result.artifact().artifact()));
  EXPECT_EQ(artifact.objects_size(), 3);

  const CompileAnswer second = d.client().Compile(request);
  EXPECT_EQ(second.result.served_from(), CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(second.result.artifact().artifact(),
            first.result.artifact().artifact());
  d.Restart();
  const auto found = d.client().Lookup(LookupFor(request));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->outcome(), LookupReply::OUTCOME_HIT);
  EXPECT_EQ(found->artifact().artifact(), first.result.artifact().artifact());
  EXPECT_EQ(d.count(Count::kPlans), 0);
}

TEST(Daemon, AnArtifactIsSignedByTheKeyThatDescribeTells) {
  TestDaemon d;
  grpc::ClientContext context;
  wire::DescribeReply about;
  ASSERT_TRUE(CompileStub(d.client())->Describe(&context, {}, &about).ok());
  ASSERT_EQ(about.targets_size(), 1);
  EXPECT_EQ(about.targets(0), "cpu");
  const auto key = PublicKey::FromBytes(about.public_key());
  ASSERT_TRUE(key.ok());
  const CompileAnswer answer = d.client().Compile(FakeRequest({"fake.salt.a"}));
  const wire::SignedArtifact& made = answer.result.artifact();
  const auto envelope = OpenSeal(made, {*key});
  ASSERT_TRUE(envelope.ok()) << envelope.status();
  EXPECT_EQ(envelope->cache_namespace(), "default");
  EXPECT_EQ(envelope->compile_key(), answer.result.compile_key());
  EXPECT_EQ(envelope->build(), about.build_identity());
  EXPECT_GT(envelope->made_unix_ms(), 0);
}

TEST(Daemon, HealthAndReflectionAnswer) {
  TestDaemon d;
  const std::string address = absl::StrCat("unix:", d.config().socket);
  EXPECT_EQ(AskHealth(address), "SERVING");
  const auto services = ServicesAt(address);
  ASSERT_TRUE(services.ok()) << services.status();
  EXPECT_THAT(*services, testing::IsSupersetOf({"kiln.wire.CompileService",
                                                "kiln.wire.AdminService",
                                                "grpc.health.v1.Health"}));
}

TEST(Daemon, StatsTellWherePlanningTimeWent) {
  TestDaemon d;
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.a"})).status.ok());
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.b"})).status.ok());
  grpc::ClientContext context;
  wire::StatsReply stats;
  ASSERT_TRUE(AdminStub(d.client())->Stats(&context, {}, &stats).ok());
  int64_t obeying = 0;
  for (const wire::Counter& counter : stats.counters()) {
    if (counter.name() == "plan.us.obey") obeying = counter.value();
  }
  EXPECT_EQ(obeying, 14);  // the fake worker says 7 a plan
}

TEST(Daemon, AJobThatEndsTwoWorkersIsRefusedAfterwards) {
  TestDaemon d;
  wire::CompileRequest request = FakeRequest({"fake.build_die.any"});
  request.mutable_graph()->set_name("forward_0");
  const CompileAnswer first = d.client().Compile(request);
  EXPECT_EQ(ReasonOf(first.status), ErrorReason::kWorkerDied) << first.status;
  for (const absl::string_view due :
       {"graph forward_0: 2 workers ended while building", "signal 6",
        "dies as told"}) {
    EXPECT_TRUE(absl::StrContains(first.status.message(), due)) << first.status;
  }
  const CompileAnswer second = d.client().Compile(request);
  EXPECT_EQ(ReasonOf(second.status), ErrorReason::kJobPoisoned);
  // By one name, that `compilectl workers` shows too.
  const auto name = [](const absl::Status& status) {
    return std::string(status.message().substr(0, status.message().find(':')));
  };
  EXPECT_EQ(name(second.status), name(first.status));
  EXPECT_EQ(d.count(Count::kWorkersDied), 2);
  ExpectWellAndEmpty(d);
}

TEST(Daemon, AnErrorOfTheWorkerReachesTheCallerWithItsReason) {
  TestDaemon d;
  const CompileAnswer answer =
      d.client().Compile(FakeRequest({"fake.error.UNSUPPORTED_OP"}));
  EXPECT_EQ(ReasonOf(answer.status), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnimplemented);
  ExpectWellAndEmpty(d);
}

TEST(Daemon, ACallersDeadlineEndsItsWaitAndTheJobIsStoredAllTheSame) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  // The deadline is to pass while the job runs, however late it starts: one
  // that is still queued then is cancelled.
  for (int seconds = 1; d.count(Count::kJobsStarted) == 0; seconds *= 2) {
    ASSERT_LT(seconds, 100) << "no job started";
    EXPECT_EQ(d.client().Compile(request, absl::Seconds(seconds)).status.code(),
              absl::StatusCode::kDeadlineExceeded);
  }
  WaitUntil(d, [&d] { return WaitersOf(d) == 0; });
  d.OpenGate("a");
  WaitUntil(d, [&d] { return d.count(Count::kJobsDone) == 1; });
  EXPECT_EQ(d.client().Compile(request).result.served_from(),
            CompileResult::SERVED_FROM_CACHE);
}

TEST(Daemon, AQueuedJobThatNobodyWaitsForIsCancelled) {
  TestDaemon d([](Config& config) { config.worker_count = 1; });
  // One worker has three runners: they are all taken, then one more waits.
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&d, i] {
      d.client().Compile(
          FakeRequest({"fake.gate.a", absl::StrCat("fake.salt.", i)}));
    });
  }
  WaitUntil(d, [&d] { return d.count(Count::kJobsStarted) == 3; });
  grpc::ClientContext context;
  const auto stream = CompileStub(d.client())
                          ->Compile(&context, FakeRequest({"fake.salt.late"}));
  wire::CompileEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.progress().stage(), wire::Progress::STAGE_QUEUED);
  context.TryCancel();
  EXPECT_FALSE(stream->Finish().ok());
  WaitUntil(d, [&d] { return d.count(Count::kJobsCancelled) == 1; });
  d.OpenGate("a");
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(d.count(Count::kJobsStarted), 3);
}

TEST(Daemon, AFullQueueRefuses) {
  TestDaemon d([](Config& config) {
    config.worker_count = 1;
    config.queue_limit = 1;
  });
  std::vector<std::thread> clients;
  const auto begin = [&d, &clients](int i) {
    clients.emplace_back([&d, i] {
      const CompileAnswer answer = d.client().Compile(
          FakeRequest({"fake.gate.a", absl::StrCat("fake.salt.", i)}));
      EXPECT_TRUE(answer.status.ok()) << answer.status;
    });
  };
  for (int i = 0; i < 3; ++i) {
    begin(i);
    WaitUntil(d, [&d, i] { return d.count(Count::kJobsStarted) == i + 1; });
  }
  begin(3);
  WaitUntil(d, [&d] { return JobsOf(d).jobs_size() == 4; });
  const CompileAnswer refused =
      d.client().Compile(FakeRequest({"fake.salt.late"}));
  EXPECT_EQ(ReasonOf(refused.status), ErrorReason::kQueueFull);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  d.OpenGate("a");
  for (std::thread& client : clients) client.join();
}

TEST(Daemon, AWaiterWhoseSizesBreakTheGuardsGetsAnArtifactWithoutThem) {
  TestDaemon d;
  // 12 and 14 are of one class; only 12 is a multiple of 3.
  const std::vector<std::string> ops = {"fake.guard_mod.3", "fake.gate.a"};
  CompileAnswer fits;
  CompileAnswer breaks;
  std::thread leader([&] { fits = d.client().Compile(FakeRequest(ops, 12)); });
  WaitUntil(d, [&d] { return WaitersOf(d) == 1; });
  std::thread joined(
      [&] { breaks = d.client().Compile(FakeRequest(ops, 14)); });
  WaitUntil(d, [&d] { return WaitersOf(d) == 2; });
  d.OpenGate("a");
  leader.join();
  joined.join();
  ASSERT_TRUE(fits.status.ok()) << fits.status;
  ASSERT_TRUE(breaks.status.ok()) << breaks.status;
  EXPECT_EQ(d.count(Count::kPlans), 2);
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(breaks.result.artifact().artifact()));
  EXPECT_EQ(artifact.compiled().guards().symbols_size(), 0);
  EXPECT_EQ(fits.result.compile_key(), breaks.result.compile_key());
}

TEST(Daemon, UnitsAreSharedByGraphsAndBuiltOnce) {
  TestDaemon d;
  ASSERT_TRUE(d.client()
                  .Compile(FakeRequest(
                      {"fake.shared.x", "fake.units.4", "fake.salt.a"}))
                  .status.ok());
  const CompileAnswer other = d.client().Compile(
      FakeRequest({"fake.shared.x", "fake.units.4", "fake.salt.b"}));
  EXPECT_EQ(other.result.units_built(), 0u);
  EXPECT_EQ(other.result.units_cached(), 4u);
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 4);
}

TEST(Daemon, JobsAtOnceBuildASharedUnitOnce) {
  TestDaemon d([](Config& config) { config.worker_count = 3; });
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&d, i] {
      const CompileAnswer answer =
          d.client().Compile(FakeRequest({"fake.shared.x", "fake.build_gate.a",
                                          absl::StrCat("fake.salt.", i)}));
      EXPECT_TRUE(answer.status.ok()) << answer.status;
    });
  }
  WaitUntil(d, [&d] { return d.count(Count::kUnitsJoined) == 1; });
  d.OpenGate("a");
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 1);
}

TEST(Daemon, AStopInTheMiddleAnswersItsCallers) {
  TestDaemon d;
  std::thread client([&d] {
    const CompileAnswer answer =
        d.client().Compile(FakeRequest({"fake.gate.never"}));
    EXPECT_EQ(ReasonOf(answer.status), ErrorReason::kDraining) << answer.status;
  });
  WaitUntil(d, [&d] { return d.count(Count::kJobsStarted) == 1; });
  d.Stop();
  client.join();
}

TEST(Daemon, ASecondDaemonIsToldThePath) {
  TestDaemon d;
  const auto same_socket = Daemon::Start(d.config(), geteuid());
  EXPECT_EQ(ReasonOf(same_socket.status()), ErrorReason::kInUse);
  EXPECT_TRUE(
      absl::StrContains(same_socket.status().message(), d.config().socket));
  Config other = d.config();
  other.socket += "2";
  const auto same_folder = Daemon::Start(other, geteuid());
  EXPECT_EQ(ReasonOf(same_folder.status()), ErrorReason::kInUse);
  EXPECT_TRUE(
      absl::StrContains(same_folder.status().message(), d.config().data_folder))
      << same_folder.status();
  ExpectWellAndEmpty(d);
}

TEST(Daemon, ADecisionTouchesTheEntriesThatMeetItsKeyAlone) {
  TestDaemon d;
  const wire::CompileRequest meets =
      FakeRequest({"fake.row.reduce/64x768/fake"});
  const wire::CompileRequest other = FakeRequest({"fake.row.another_key"});
  const CompileAnswer before = d.client().Compile(meets);
  ASSERT_TRUE(d.client().Compile(other).status.ok());
  grpc::ClientContext context;
  wire::TuneRequest tune;
  *tune.mutable_compile() = meets;
  wire::TuneReply reply;
  const grpc::Status status =
      AdminStub(d.client())->Tune(&context, tune, &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(reply.kernels_size(), 1);
  const wire::TunedKernel& tuned = reply.kernels(0);
  EXPECT_EQ(tuned.key(), "reduce/64x768/fake");
  EXPECT_EQ(tuned.choice(), "rows=4");
  EXPECT_EQ(tuned.choices_size(), 2);

  EXPECT_EQ(d.client().Compile(other).result.served_from(),
            CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(d.client().Lookup(LookupFor(meets))->outcome(),
            LookupReply::OUTCOME_GUARD_MISS);
  const CompileAnswer after = d.client().Compile(meets);
  EXPECT_EQ(after.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(after.result.compile_key(), before.result.compile_key());
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(after.result.artifact().artifact()));
  ASSERT_EQ(artifact.compiled().tuned_size(), 1);
  EXPECT_EQ(artifact.compiled().tuned(0), absl::StrCat(tuned.key(), " rows=4"));
  // Kept: also for the daemon's next life.
  d.Restart();
  EXPECT_EQ(d.client().Lookup(LookupFor(meets))->artifact().artifact(),
            after.result.artifact().artifact());
}

TEST(Daemon, WhatOtherKeysDependOnIsMeasuredFirst) {
  TestDaemon d;
  wire::TuneRequest tune;
  *tune.mutable_compile() = FakeRequest({"fake.way.way_align/768/fake"});
  tune.set_missing_only(true);
  const auto keys = [&] {
    grpc::ClientContext context;
    wire::TuneReply reply;
    const grpc::Status status =
        AdminStub(d.client())->Tune(&context, tune, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.failures_size(), 0);
    std::vector<std::string> keys;
    for (const wire::TunedKernel& kernel : reply.kernels())
      keys.push_back(kernel.key());
    return keys;
  };
  const std::string inner = "of/way_align/768/fake/rows=4";
  EXPECT_THAT(keys(), ElementsAre("way_align/768/fake", inner));
  EXPECT_THAT(keys(), IsEmpty());
  // Measured again, each once.
  tune.set_missing_only(false);
  EXPECT_THAT(keys(), ElementsAre("way_align/768/fake", inner));
  const CompileAnswer answer = d.client().Compile(tune.compile());
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(answer.result.artifact().artifact()));
  EXPECT_THAT(artifact.compiled().tuned(),
              ElementsAre(inner + " rows=4", "way_align/768/fake rows=4"));
}

// Ends the daemon's only worker, which is there once the daemon has started.
void KillTheWorker(TestDaemon& d) {
  const pid_t pid = d.daemon().pool().Snapshot()[0].pid;
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  siginfo_t ended;
  // Of our children, who are jailers, the one whose worker it was.
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
}

TEST(Daemon, AnArtifactOfOtherCompilersIsNotServed) {
  TestDaemon d([](Config& config) { config.worker_count = 1; });
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  const CompileAnswer before = d.client().Compile(request);
  ASSERT_TRUE(before.status.ok()) << before.status;
  d.ReplaceToolchain("1.0");
  KillTheWorker(d);
  // The next job meets the next worker, which tells of the new compiler.
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.b"})).status.ok());
  const CompileAnswer after = d.client().Compile(request);
  ASSERT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_NE(after.result.compile_key(), before.result.compile_key());
}

TEST(Daemon, AWorkerThatCannotStartPoisonsNoJob) {
  std::string fake_worker;
  TestDaemon d([&fake_worker](Config& config) {
    config.worker_count = 1;
    fake_worker = config.worker_program;
    config.worker_program = absl::StrCat(config.data_folder, ".worker");
    std::filesystem::create_symlink(fake_worker, config.worker_program);
  });
  const std::string& program = d.config().worker_program;
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  std::filesystem::remove(program);
  KillTheWorker(d);
  const CompileAnswer gone = d.client().Compile(request);
  EXPECT_EQ(ReasonOf(gone.status), ErrorReason::kNoToolchain) << gone.status;
  EXPECT_TRUE(absl::StrContains(gone.status.message(), program)) << gone.status;
  std::filesystem::create_symlink(fake_worker, program);
  const CompileAnswer back = d.client().Compile(request);
  EXPECT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(d.count(Count::kJobsPoisoned), 0);
}

TEST(Daemon, ACallerThatDoesNotReadIsCutOff) {
  TestDaemon d([](Config& config) {
    config.max_waiting_calls = 1;
    config.write_timeout = absl::Seconds(1);
  });
  // Far more than a stream holds that nobody reads from.
  const wire::CompileRequest big = FakeRequest({"fake.build_pad.20000000"});
  grpc::ClientContext context;
  const auto stream = CompileStub(d.client())->Compile(&context, big);
  WaitUntil(d, [&d] { return d.count(Count::kCallsUnread) >= 1; });
  // Its thread serves others again: those that read within the second, which a
  // busy machine may keep this one from.
  WaitUntil(d, [&d] {
    return d.client().Compile(FakeRequest({"fake.salt.a"})).status.ok();
  });
  wire::CompileEvent event;
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace kiln

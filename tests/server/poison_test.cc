// The poison set: what a request, or the worker it took over, may do to a daemon.
// Each fails its own job with a reason, leaves nothing behind, and the daemon
// serves on.

#include <signal.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "server/quarantine.h"
#include "server/worker_pool.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/left_behind.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

// One poison, and the reason that its caller is due.
struct Poison {
  std::string name;
  std::string order;
  ErrorReason reason = ErrorReason::kWorkerDied;
};

class PoisonTest : public testing::TestWithParam<Poison> {};

INSTANTIATE_TEST_SUITE_P(
    Set, PoisonTest,
    testing::Values(Poison{"AnEndlessLoop", "fake.spin.any"},
                    Poison{"AnEndlessWait", "fake.hang.any"},
                    Poison{"AllMemory", "fake.eat.any"},
                    Poison{"ASegmentationFault", "fake.crash.any"},
                    Poison{"AForkBomb", "fake.bomb.any"},
                    Poison{"AnAbort", "fake.die.any"},
                    Poison{"GarbageFrames", "fake.garbage.any"},
                    Poison{"AnAbortWhileBuilding", "fake.build_die.any"}),
    [](const auto& info) { return info.param.name; });

TEST_P(PoisonTest, FailsItsOwnJobAndLeavesNothing) {
  if (GetParam().name == "AllMemory" && kTestWorkerMemoryBytes == 0) {
    GTEST_SKIP() << "a sanitizer takes it all";
  }
  TestDaemon d([](Config& config) {
    config.worker_count = 2;
    config.worker_timeout = absl::Seconds(3);
    config.worker_cpu_limit = absl::Seconds(1);
    if (kTestWorkerMemoryBytes > 0) {
      config.worker_memory_bytes = int64_t{256} << 20;
    }
  });
  const CompileAnswer bad = d.client().Compile(FakeRequest({GetParam().order}));
  EXPECT_EQ(ReasonOf(bad.status), GetParam().reason) << bad.status;
  const CompileAnswer again =
      d.client().Compile(FakeRequest({GetParam().order}));
  EXPECT_EQ(ReasonOf(again.status), ErrorReason::kJobPoisoned) << again.status;
  ExpectWellAndEmpty(d, FakeRequest({"fake.salt.good"}));
  ExpectNothingLeft(d);
}

TEST(Poison, ACallerThatKeepsSendingItBeginsNoOtherJob) {
  TestDaemon d;
  for (int i = 0; i < Quarantine::kJobsACaller; ++i) {
    wire::CompileRequest request = FakeRequest({"fake.die.any"});
    request.mutable_options()->mutable_artifact()->set_cache_tag(
        absl::StrCat("tag ", i));
    EXPECT_EQ(ReasonOf(d.client().Compile(request).status),
              ErrorReason::kWorkerDied);
  }
  EXPECT_EQ(
      ReasonOf(d.client().Compile(FakeRequest({"fake.salt.another"})).status),
      ErrorReason::kJobPoisoned);
  // An operator's word, and it may again.
  grpc::ClientContext context;
  wire::QuarantineRequest request;
  request.set_clear_all(true);
  wire::QuarantineReply reply;
  ASSERT_TRUE(
      AdminStub(d.client())->ListQuarantine(&context, request, &reply).ok());
  EXPECT_EQ(reply.cleared(), uint32_t{Quarantine::kJobsACaller});
  EXPECT_TRUE(
      d.client().Compile(FakeRequest({"fake.salt.another"})).status.ok());
}

// Compiles each on a thread of its own, and does `meanwhile`.
std::vector<CompileAnswer> CompileAll(
    TestDaemon& d, const std::vector<wire::CompileRequest>& requests,
    const std::function<void()>& meanwhile) {
  std::vector<CompileAnswer> answers(requests.size());
  std::vector<std::thread> callers;
  for (size_t i = 0; i < requests.size(); ++i) {
    callers.emplace_back([&, i] {
      answers[i] = TestClient(d.config().socket).Compile(requests[i]);
    });
  }
  meanwhile();
  for (std::thread& caller : callers) caller.join();
  return answers;
}

uint32_t WaitersOf(TestDaemon& d) {
  grpc::ClientContext context;
  wire::JobsReply jobs;
  EXPECT_TRUE(AdminStub(d.client())->Jobs(&context, {}, &jobs).ok());
  uint32_t waiters = 0;
  for (const wire::Job& job : jobs.jobs()) waiters += job.waiters();
  return waiters;
}

int InState(TestDaemon& d, const std::string& state) {
  int found = 0;
  for (const WorkerView& worker : d.daemon().pool().Snapshot())
    found += worker.pid > 0 && worker.state == state ? 1 : 0;
  return found;
}

// An upgrade of the machine's compilers ends no job, and nobody is to blame.
TEST(Poison, JobsUnderWayWhenCompilersAreReplacedAreDoneWithTheNewOnes) {
  TestDaemon d;
  constexpr uint32_t kJobs = 2 * Quarantine::kJobsACaller;
  std::vector<wire::CompileRequest> requests;
  for (uint32_t i = 0; i < kJobs; ++i)
    requests.push_back(
        FakeRequest({"fake.gate.g", absl::StrCat("fake.salt.", i)}));
  const auto answers = CompileAll(d, requests, [&d] {
    while (WaitersOf(d) < kJobs || InState(d, "planning") < 2)
      std::this_thread::yield();
    d.ReplaceToolchain("1.0");
    for (const WorkerView& worker : d.daemon().pool().Snapshot())
      EXPECT_EQ(kill(worker.pid, SIGKILL), 0);
    d.OpenGate("g");
  });
  for (const CompileAnswer& answer : answers)
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GE(d.count(Count::kJobsFailed), kJobs);
  EXPECT_EQ(d.count(Count::kJobsPoisoned), 0);
}

// Whoever joins the build of a poison is not poisoned by it.
TEST(Poison, AJobOfAnotherNamespaceOutlivesTheBuildThatItJoined) {
  TestDaemon d;
  const auto request = [](const std::string& cache_namespace) {
    wire::CompileRequest made = FakeRequest(
        {"fake.shared.unit", "fake.build_gate.g", "fake.build_die_once.1",
         "fake.build_die_once.2", absl::StrCat("fake.salt.", cache_namespace)});
    made.set_cache_namespace(cache_namespace);
    return made;
  };
  const auto answers =
      CompileAll(d, {request("team-a"), request("team-b")}, [&d] {
        while (d.count(Count::kUnitsJoined) < 1) std::this_thread::yield();
        d.OpenGate("g");
      });
  // One began the build that ended two workers; the other, either, has its own.
  const bool first = answers[0].status.ok();
  EXPECT_TRUE(answers[first ? 0 : 1].status.ok());
  EXPECT_EQ(ReasonOf(answers[first ? 1 : 0].status), ErrorReason::kWorkerDied);
  EXPECT_TRUE(
      d.client().Compile(request(first ? "team-a" : "team-b")).status.ok());
  EXPECT_EQ(d.count(Count::kJobsPoisoned), 0);
}

// No worker that lives can have a job, and with it a caller, refused.
TEST(Poison, AWorkerThatSaysItHasEndedPoisonsNothing) {
  TestDaemon d;
  for (int i = 0; i < 2; ++i) {
    const absl::Status told =
        d.client().Compile(FakeRequest({"fake.error.WORKER_DIED"})).status;
    EXPECT_EQ(told.code(), absl::StatusCode::kInternal) << told;
  }
  EXPECT_EQ(d.count(Count::kJobsPoisoned), 0);
}

}  // namespace
}  // namespace kiln

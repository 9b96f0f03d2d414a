#include "server/worker_pool.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

constexpr char kFakeWorker[] = "tests/support/fake_worker";

std::string ScratchFolder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(getenv("TEST_TMPDIR"), "/", test->name());
}

WorkerLimits TestLimits() {
  WorkerLimits limits;
  // Absolute: the child changes its folder before it is executed.
  limits.program = absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/", kFakeWorker);
  limits.wall = absl::Seconds(60);
  limits.memory_bytes = kTestWorkerMemoryBytes;
  return limits;
}

struct Pool {
  explicit Pool(int workers, const WorkerLimits& limits = TestLimits()) {
    auto started =
        WorkerPool::Start(limits, workers, ScratchFolder(), counters);
    EXPECT_TRUE(started.ok()) << started.status();
    pool = *std::move(started);
  }

  absl::StatusOr<wire::WorkReply> Plan(const std::string& op) {
    const std::shared_ptr<PendingWork> work = Submit(op);
    ASSIGN_OR_RETURN(const wire::WorkReply* reply, work->Wait());
    return *reply;
  }
  std::shared_ptr<PendingWork> Submit(const std::string& op) {
    wire::WorkRequest request;
    request.mutable_plan()
        ->mutable_compile()
        ->mutable_graph()
        ->add_nodes()
        ->set_op(op);
    return pool->Submit(std::move(request), Sha256Of(op));
  }

  Counters counters;
  std::unique_ptr<WorkerPool> pool;
};

TEST(WorkerPool, AWorkerAnswers) {
  Pool p(1);
  const auto reply = p.Plan("fake.units.3");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->plan().units_size(), 3);
  EXPECT_EQ(p.pool->identity().toolchains_size(), 2);
  EXPECT_GT(p.pool->Snapshot()[0].resident_bytes, 0);
}

TEST(WorkerPool, AnErrorOfTheWorkerKeepsItsReason) {
  Pool p(1);
  const auto reply = p.Plan("fake.error.UNSUPPORTED_OP");
  EXPECT_EQ(ReasonOf(reply.status()), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(p.counters.Get(Count::kWorkersDied), 0);
}

TEST(WorkerPool, AWorkerThatDiesCostsOneRetry) {
  Pool p(1);
  const auto reply = p.Plan("fake.die_once.a");
  EXPECT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(p.counters.Get(Count::kWorkersDied), 1);
  EXPECT_EQ(p.counters.Get(Count::kWorkersRetried), 1);
  EXPECT_EQ(p.pool->Snapshot()[0].restarts, 1);
}

TEST(WorkerPool, AWorkerThatDiesTwiceFailsItsRequestAloneWithItsLastWords) {
  Pool p(2);
  const auto bad = p.Submit("fake.die.any");
  const auto good = p.Submit("fake.salt.b");
  EXPECT_TRUE(good->Wait().ok()) << good->Wait().status();
  const absl::Status status = bad->Wait().status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kWorkerDied);
  EXPECT_TRUE(absl::StrContains(status.message(), "signal 6")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "dies as told")) << status;
  EXPECT_TRUE(p.Plan("fake.salt.c").ok());
}

TEST(WorkerPool, AHungWorkerIsKilledAtItsWallLimit) {
  WorkerLimits limits = TestLimits();
  limits.wall = absl::Milliseconds(300);
  Pool p(1, limits);
  const auto reply = p.Plan("fake.hang.any");
  EXPECT_EQ(ReasonOf(reply.status()), ErrorReason::kWorkerDied);
  EXPECT_TRUE(absl::StrContains(reply.status().message(), "no reply within"));
  EXPECT_EQ(p.counters.Get(Count::kWorkersHung), 2);
}

TEST(WorkerPool, GarbageFromAWorkerIsItsEnd) {
  Pool p(1);
  const auto reply = p.Plan("fake.garbage.any");
  EXPECT_EQ(ReasonOf(reply.status()), ErrorReason::kWorkerDied);
  EXPECT_TRUE(absl::StrContains(reply.status().message(), "magic"))
      << reply.status();
  EXPECT_TRUE(p.Plan("fake.salt.a").ok());
}

TEST(WorkerPool, AWorkerThatTakesAllMemoryIsEnded) {
  if (kTestWorkerMemoryBytes == 0) GTEST_SKIP() << "a sanitizer takes it all";
  WorkerLimits limits = TestLimits();
  limits.memory_bytes = int64_t{256} << 20;
  Pool p(1, limits);
  const auto reply = p.Plan("fake.eat.any");
  EXPECT_EQ(ReasonOf(reply.status()), ErrorReason::kWorkerDied);
  EXPECT_TRUE(p.Plan("fake.salt.a").ok());
}

TEST(WorkerPool, AWorkerThatTakesAllProcessorTimeIsEnded) {
  WorkerLimits limits = TestLimits();
  limits.cpu = absl::ZeroDuration();  // and one second of grace
  limits.wall = absl::Minutes(10);    // however little of it we get
  Pool p(1, limits);
  const auto reply = p.Plan("fake.spin.any");
  EXPECT_EQ(ReasonOf(reply.status()), ErrorReason::kWorkerDied);
  EXPECT_TRUE(absl::StrContains(reply.status().message(), "signal 24"))
      << reply.status();
}

TEST(WorkerPool, AWorkerKilledWhileIdleCostsNothing) {
  Pool p(1);
  ASSERT_TRUE(p.Plan("fake.salt.a").ok());
  ASSERT_EQ(kill(p.pool->Snapshot()[0].pid, SIGKILL), 0);
  EXPECT_TRUE(p.Plan("fake.salt.b").ok());
}

TEST(WorkerPool, TheEndAnswersWhatIsUnderWay) {
  auto p = std::make_unique<Pool>(1);
  const auto running = p->Submit("fake.gate.never");
  const auto waiting = p->Submit("fake.salt.a");
  p.reset();
  EXPECT_EQ(ReasonOf(running->Wait().status()), ErrorReason::kDraining);
  EXPECT_EQ(ReasonOf(waiting->Wait().status()), ErrorReason::kDraining);
}

TEST(WorkerPool, AProgramThatIsNotThereIsNamed) {
  Counters counters;
  WorkerLimits limits;
  limits.program = "/nowhere/kiln-worker";
  const auto started = WorkerPool::Start(limits, 2, ScratchFolder(), counters);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kWorkerDied);
  EXPECT_TRUE(
      absl::StrContains(started.status().message(), "/nowhere/kiln-worker"));
}

TEST(WorkerPool, AProgramThatSaysNothingIsRefused) {
  Counters counters;
  WorkerLimits limits;
  limits.program = "/bin/true";
  const auto started = WorkerPool::Start(limits, 1, ScratchFolder(), counters);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kWorkerDied);
}

}  // namespace
}  // namespace kiln

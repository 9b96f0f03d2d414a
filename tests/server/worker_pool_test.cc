#include "server/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "server/counters.h"
#include "server/worker_roster.h"
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
  std::shared_ptr<PendingWork> Submit(const std::string& ops,
                                      const std::string& toolchain = "",
                                      const std::string& cache_namespace = "") {
    wire::WorkRequest request;
    wire::Graph& graph =
        *request.mutable_plan()->mutable_compile()->mutable_graph();
    for (const absl::string_view op : absl::StrSplit(ops, ' ')) {
      graph.add_nodes()->set_op(std::string(op));
    }
    return pool->Submit(std::move(request),
                        {.key = Sha256Of(ops),
                         .toolchain = toolchain,
                         .cache_namespace = cache_namespace});
  }

  Counters counters;
  std::unique_ptr<WorkerPool> pool;
};

// Ends the worker, which must be there: 0 would be all of this test.
void Kill(const Pool& p, int index) {
  const pid_t pid = p.pool->Snapshot()[index].pid;
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  siginfo_t ended;
  // Of our children, who are jailers, the one whose worker it was.
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
}

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
  Kill(p, 0);
  EXPECT_TRUE(p.Plan("fake.salt.b").ok());
}

// The first, whose hello the start waits for, says it at the daemon's own.
TEST(WorkerPool, AReplacementHasTheLowestPriorityBeforeItsHello) {
  Pool p(1);
  const auto policy_at_hello = [&p] {
    return std::string(p.Plan("fake.policy.any").status().message());
  };
  EXPECT_TRUE(absl::EndsWith(policy_at_hello(),
                             absl::StrCat("policy ", sched_getscheduler(0))));
  Kill(p, 0);
  EXPECT_TRUE(
      absl::EndsWith(policy_at_hello(), absl::StrCat("policy ", SCHED_BATCH)));
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
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kNoToolchain);
  EXPECT_TRUE(
      absl::StrContains(started.status().message(), "/nowhere/kiln-worker"));
}

TEST(WorkerPool, AProgramThatSaysNothingIsRefused) {
  Counters counters;
  WorkerLimits limits;
  limits.program = "/bin/true";
  const auto started = WorkerPool::Start(limits, 1, ScratchFolder(), counters);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kNoToolchain);
}

// A named pipe in the folder of the gates, that a fake worker's child holds.
class Leash {
 public:
  explicit Leash(const std::string& name) {
    std::filesystem::create_directories(ScratchFolder());
    const std::string path = absl::StrCat(ScratchFolder(), "/pipe_", name);
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(chmod(path.c_str(), 0666), 0);  // workers are other users
    fd_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Leash() { close(fd_); }
  // Waits until somebody has held it and all who did are gone.
  bool HoldersGone(absl::Duration wait = absl::Minutes(1)) {
    pollfd entry = {.fd = fd_, .events = 0, .revents = 0};
    const int milliseconds = static_cast<int>(wait / absl::Milliseconds(1));
    return poll(&entry, 1, milliseconds) == 1 && (entry.revents & POLLHUP) != 0;
  }

 private:
  int fd_;
};

TEST(WorkerPool, AWorkerThatDiesTakesItsCompilersWithIt) {
  Leash leash("a");
  Pool p(1);
  EXPECT_EQ(ReasonOf(p.Plan("fake.orphan.a fake.die.any").status()),
            ErrorReason::kWorkerDied);
  EXPECT_TRUE(leash.HoldersGone());
}

TEST(WorkerPool, AHungWorkerTakesItsCompilersWithIt) {
  Leash leash("a");
  // The limit is to pass once the worker's child runs, however late it starts.
  bool gone = false;
  for (int seconds = 1; !gone && seconds < 100; seconds *= 2) {
    WorkerLimits limits = TestLimits();
    limits.wall = absl::Seconds(seconds);
    Pool p(1, limits);
    EXPECT_EQ(ReasonOf(p.Plan("fake.orphan.a fake.hang.any").status()),
              ErrorReason::kWorkerDied);
    gone = leash.HoldersGone(absl::Seconds(seconds));
  }
  EXPECT_TRUE(gone);
}

TEST(WorkerPool, AProgramThatWentAwayFailsRequestsUntilItIsBack) {
  const std::string program = absl::StrCat(ScratchFolder(), ".worker");
  std::filesystem::create_symlink(TestLimits().program, program);
  WorkerLimits limits = TestLimits();
  limits.program = program;
  Pool p(1, limits);
  std::filesystem::remove(program);
  Kill(p, 0);
  const absl::Status gone = p.Plan("fake.salt.a").status();
  EXPECT_EQ(ReasonOf(gone), ErrorReason::kNoToolchain) << gone;
  EXPECT_TRUE(absl::StrContains(gone.message(), program)) << gone;
  std::filesystem::create_symlink(TestLimits().program, program);
  EXPECT_TRUE(p.Plan("fake.salt.a").ok());
}

// The version that fake workers started from now on tell of.
void ReplaceToolchain(const std::string& version) {
  std::ofstream(absl::StrCat(ScratchFolder(), "/toolchain")) << version;
}

TEST(WorkerPool, WorkBegunForCompilersThatWereReplacedIsRefused) {
  Pool p(1);
  const std::string before = p.pool->build()->cpu_toolchain;
  EXPECT_TRUE(p.Submit("fake.salt.a", before)->Wait().ok());
  ReplaceToolchain("1.0");
  Kill(p, 0);
  const absl::Status late = p.Submit("fake.salt.a", before)->Wait().status();
  EXPECT_EQ(ReasonOf(late), ErrorReason::kNoToolchain) << late;
  EXPECT_TRUE(CompilersWereReplaced(late)) << late;
  const std::string now = p.pool->build()->cpu_toolchain;
  EXPECT_EQ(now, "g++ 1.0");
  EXPECT_EQ(p.pool->identity().toolchains(0).version(), "1.0");
  EXPECT_TRUE(p.Submit("fake.salt.a", now)->Wait().ok());
}

void WaitUntilBothAre(const Pool& p, const std::string& state) {
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (p.pool->Snapshot()[0].state != state ||
         p.pool->Snapshot()[1].state != state) {
    ASSERT_LT(absl::Now(), give_up);
    std::this_thread::yield();
  }
}

// Has each of two workers answer a request: the gate opens once both have one.
void UseBoth(Pool& p, const std::string& gate) {
  WaitUntilBothAre(p, "idle");
  const auto one = p.Submit(absl::StrCat("fake.gate.", gate));
  const auto two = p.Submit(absl::StrCat("fake.gate.", gate));
  WaitUntilBothAre(p, "planning");
  std::ofstream(absl::StrCat(ScratchFolder(), "/gate_", gate)) << "open";
  EXPECT_TRUE(one->Wait().ok() && two->Wait().ok());
}

TEST(WorkerPool, WorkersWithTheOldCompilersMakeWay) {
  Pool p(2);
  UseBoth(p, "a");  // so both are there
  ReplaceToolchain("1.0");
  Kill(p, 0);
  UseBoth(p, "b");  // the first tells of the new compilers
  EXPECT_EQ(p.pool->build()->cpu_toolchain, "g++ 1.0");
  UseBoth(p, "c");  // and the second has made way
  EXPECT_EQ(p.pool->Snapshot()[0].restarts, 1);
  EXPECT_EQ(p.pool->Snapshot()[1].restarts, 1);
}

// The scratch folders that stand now.
std::set<std::string> WorkerFolders() {
  std::set<std::string> folders;
  for (const auto& entry :
       std::filesystem::directory_iterator(ScratchFolder())) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "worker")) folders.insert(name);
  }
  return folders;
}

TEST(WorkerPool, NoWorkerGetsAFolderThatWasAnothers) {
  std::set<std::string> seen;
  for (int i = 0; i < 2; ++i) {
    Pool p(1);
    for (int j = 0; j < 2; ++j) {
      ASSERT_TRUE(p.Plan(absl::StrCat("fake.salt.", j)).ok());
      const std::set<std::string> now = WorkerFolders();
      ASSERT_EQ(now.size(), 1u);
      EXPECT_TRUE(seen.insert(*now.begin()).second) << *now.begin();
      Kill(p, 0);
    }
  }
  EXPECT_TRUE(WorkerFolders().empty());
}

TEST(WorkerPool, FoldersOfADaemonThatWasKilledAreRemoved) {
  const std::string left = absl::StrCat(ScratchFolder(), "/worker0");
  std::filesystem::create_directories(left);
  std::ofstream(absl::StrCat(left, "/unit.so")) << "of another day";
  Pool p(1);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(p.Plan("fake.salt.a").ok());
}

TEST(WorkerPool, AWorkerWhoseFolderWasRemovedMakesWay) {
  Pool p(1);
  ASSERT_TRUE(p.Plan("fake.salt.a").ok());
  std::filesystem::remove_all(ScratchFolder());
  EXPECT_TRUE(p.Plan("fake.salt.b").ok());
  EXPECT_EQ(p.pool->Snapshot()[0].restarts, 1);
  EXPECT_EQ(p.counters.Get(Count::kWorkersDied), 0);
  EXPECT_EQ(WorkerFolders().size(), 1u);
}

TEST(WorkerPool, AnotherNamespaceGetsAProcessOfItsOwn) {
  Pool p(1);
  ASSERT_TRUE(p.Submit("fake.salt.a", "", "red")->Wait().ok());
  const pid_t red = p.pool->Snapshot()[0].pid;
  ASSERT_TRUE(p.Submit("fake.salt.b", "", "red")->Wait().ok());
  EXPECT_EQ(p.pool->Snapshot()[0].pid, red);
  ASSERT_TRUE(p.Submit("fake.salt.a", "", "blue")->Wait().ok());
  EXPECT_NE(p.pool->Snapshot()[0].pid, red);
  EXPECT_EQ(p.counters.Get(Count::kWorkersDied), 0);
}

TEST(WorkerPool, ANamespacesRequestsGoToTheWorkerThatHadItBefore) {
  Pool p(2);
  WaitUntilBothAre(p, "idle");
  for (int round = 0; round < 8; ++round) {
    for (const char* whose : {"red", "blue"}) {
      WaitUntilBothAre(p, "idle");
      ASSERT_TRUE(p.Submit("fake.salt.a", "", whose)->Wait().ok());
    }
  }
  // Each had a namespace to itself: neither was ever started anew.
  EXPECT_EQ(p.pool->Snapshot()[0].restarts, 0);
  EXPECT_EQ(p.pool->Snapshot()[1].restarts, 0);
}

TEST(WorkerPool, AMachineThatGrantsLessThanIsDueStartsNoWorker) {
  Counters counters;
  WorkerLimits limits = TestLimits();
  limits.sandbox = {.weakest = JailLevel::kNamespaces,
                    .strongest = JailLevel::kLandlock};
  const auto started = WorkerPool::Start(limits, 1, ScratchFolder(), counters);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kPermission)
      << started.status();
  EXPECT_TRUE(
      absl::StrContains(started.status().message(), "namespaces is required"));
}

TEST(WorkerRoster, AWorkerWithLessThanOneBeforeIsNotTaken) {
  WorkerRoster roster(2);
  EXPECT_TRUE(roster.TakeLevel(JailLevel::kLandlock, /*gpu=*/false).ok());
  EXPECT_TRUE(roster.TakeLevel(JailLevel::kNamespaces, /*gpu=*/false).ok());
  const absl::Status less =
      roster.TakeLevel(JailLevel::kLandlock, /*gpu=*/false);
  EXPECT_EQ(ReasonOf(less), ErrorReason::kPermission);
  EXPECT_TRUE(absl::StrContains(less.message(), "namespaces is required"))
      << less;
  // Those with a GPU are compared among themselves.
  EXPECT_TRUE(roster.TakeLevel(JailLevel::kLandlock, /*gpu=*/true).ok());
}

TEST(WorkerPool, AFolderThatCannotBeMadeIsStorage) {
  Counters counters;
  const auto started =
      WorkerPool::Start(TestLimits(), 1, "/proc/nowhere", counters);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(started.status().message(), "/proc/nowhere"));
}

}  // namespace
}  // namespace kiln

// 256 sessions want one cold key at once, and something goes away in the middle: the
// one that began the job, the worker, or the daemon. All get the same artifact, and
// no more is compiled than must be.
//
//   herd_test --lead SOCKET    is the one that begins the job, as a process of its own
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/compile_client.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "server/worker_pool.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/null_session.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

constexpr int kSessions = 256;

wire::CompileRequest ColdRequest() {
  return FakeRequest({"fake.units.2", "fake.gate.go"});
}

// Waits for the daemon's own progress: each look is a call to it, which finds no
// place to connect while 256 others do.
template <typename Reached>
void WaitUntil(TestDaemon& d, Reached reached) {
  const SteadyTime give_up = After(SteadyNow(), absl::Minutes(4));
  while (true) {
    grpc::ClientContext context;
    wire::JobsReply jobs;
    if (AdminStub(d.client())->Jobs(&context, {}, &jobs).ok() && reached(jobs))
      return;
    ASSERT_LT(SteadyNow(), give_up) << "what was waited for did not come";
  }
}

void AwaitWaiters(TestDaemon& d, uint32_t due) {
  WaitUntil(d, [due](const wire::JobsReply& jobs) {
    return jobs.jobs_size() == 1 && jobs.jobs(0).waiters() == due;
  });
}

// Sessions that ask for the cold key, each on a thread and over a connection of its
// own, without a worker of their own.
class Herd {
 public:
  explicit Herd(const std::vector<const TestDaemon*>& daemons) {
    for (int i = 0; i < kSessions; ++i)
      threads_.emplace_back([this, daemons] { Compile(daemons); });
  }

  // How each artifact was served, once all have it and it is the same.
  std::multiset<int> Served() {
    for (std::thread& thread : threads_) thread.join();
    MutexLock lock(&mu_);
    EXPECT_EQ(served_.size(), size_t{kSessions});
    EXPECT_EQ(artifacts_.size(), 1u);
    return served_;
  }

 private:
  void Compile(const std::vector<const TestDaemon*>& daemons) {
    SessionOptions options = NullSessionOptions(daemons[0]->config().socket);
    options.fallback = Fallback::kError;
    options.compile_deadline = absl::Minutes(4);
    for (size_t i = 1; i < daemons.size(); ++i) {
      options.more_daemons.push_back(options.daemon);
      options.more_daemons.back().socket = daemons[i]->config().socket;
    }
    const auto session = Session::Open(options);
    ASSERT_TRUE(session.ok()) << session.status();
    CompileReport report;
    const auto outcome = (*session)->CompileOnly(ColdRequest(), report);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const auto loaded =
        (*session)->Load(outcome->artifact, outcome->request_digest);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    MutexLock lock(&mu_);
    artifacts_.insert(outcome->artifact.SerializeAsString());
    served_.insert(outcome->served_from);
  }

  Mutex mu_;
  std::set<std::string> artifacts_ ABSL_GUARDED_BY(mu_);
  std::multiset<int> served_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

// Begins the job, in a process of its own.
pid_t StartLeader(const TestDaemon& d) {
  std::string socket = d.config().socket;
  std::string lead = "--lead", program = "/proc/self/exe";
  char* argv[] = {program.data(), lead.data(), socket.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, argv[0], nullptr, nullptr, argv, environ), 0);
  return pid;
}

// The worker that has the job.
pid_t WorkerIn(TestDaemon& d, const std::string& state) {
  pid_t found = 0;
  WaitUntil(d, [&](const wire::JobsReply&) {
    for (const WorkerView& worker : d.daemon().pool().Snapshot())
      if (worker.state == state) found = worker.pid;
    return found != 0;
  });
  return found;
}

TEST(Herd, AKilledLeaderCostsNothing) {
  TestDaemon d;
  const pid_t leader = StartLeader(d);
  AwaitWaiters(d, 1);
  Herd herd({&d});
  AwaitWaiters(d, 1 + kSessions);
  ASSERT_EQ(kill(leader, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(leader, &status, 0), leader);
  EXPECT_TRUE(WIFSIGNALED(status));
  AwaitWaiters(d, kSessions);
  d.OpenGate("go");
  const std::multiset<int> served = herd.Served();
  EXPECT_EQ(served.count(wire::CompileResult::SERVED_FROM_JOINED), kSessions);
  EXPECT_EQ(d.count(Count::kJobsJoined), kSessions);
  EXPECT_EQ(d.count(Count::kPlans), 1);
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 2);
  EXPECT_EQ(d.count(Count::kJobsStarted), 1);
  EXPECT_EQ(d.count(Count::kWorkersRetried), 0);
}

TEST(Herd, AKilledWorkerCostsASecondCompile) {
  TestDaemon d;
  Herd herd({&d});
  AwaitWaiters(d, kSessions);
  ASSERT_EQ(kill(WorkerIn(d, "planning"), SIGKILL), 0);
  WaitUntil(d, [&d](const wire::JobsReply&) {
    return d.count(Count::kWorkersRetried) == 1;
  });
  d.OpenGate("go");
  const std::multiset<int> served = herd.Served();
  EXPECT_EQ(served.count(wire::CompileResult::SERVED_FROM_COMPILE), 1u);
  EXPECT_EQ(d.count(Count::kWorkersDied), 1);
  EXPECT_EQ(d.count(Count::kWorkersRetried), 1);
  EXPECT_EQ(d.count(Count::kPlans), 1);  // answered; the other one was not
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 2);
  EXPECT_EQ(d.count(Count::kJobsStarted), 1);
}

TEST(Herd, ADrainLetsTheJobOfAllEnd) {
  TestDaemon d;
  Herd herd({&d});
  AwaitWaiters(d, kSessions);
  bool emptied = false;
  std::thread drain([&] { emptied = d.daemon().Drain(); });
  absl::Status late;
  for (int i = 0; late.ok(); ++i) {  // each another graph: hits are served
    late = TestClient(d.config().socket)
               .Compile(FakeRequest({absl::StrCat("fake.salt.late", i)}))
               .status;
  }
  EXPECT_EQ(ReasonOf(late), ErrorReason::kDraining);
  d.OpenGate("go");
  herd.Served();
  drain.join();
  EXPECT_TRUE(emptied);
}

TEST(Herd, ADrainThatEndsTheJobIsTypedAndRetriedElsewhere) {
  TestDaemon first(
      [](Config& config) { config.drain_timeout = absl::Milliseconds(1); });
  TestDaemon second(
      [](Config& config) { config.drain_timeout = absl::Milliseconds(1); });
  Herd herd({&first, &second});
  // All ask the same one: which, the key decides.
  TestDaemon* asked = nullptr;
  WaitUntil(first, [&](const wire::JobsReply& jobs) {
    if (jobs.jobs_size() == 1) asked = &first;
    if (second.count(Count::kJobsStarted) == 1) asked = &second;
    return asked != nullptr;
  });
  TestDaemon& other = asked == &first ? second : first;
  AwaitWaiters(*asked, kSessions);
  EXPECT_EQ(other.count(Count::kCallsCompile), 0);
  // One that knows no other daemon hears why.
  absl::Status told;
  std::thread alone([&] {
    told = TestClient(asked->config().socket)
               .Compile(ColdRequest(), absl::Minutes(4))
               .status;
  });
  AwaitWaiters(*asked, kSessions + 1);
  EXPECT_FALSE(asked->daemon().Drain());
  alone.join();
  EXPECT_EQ(ReasonOf(told), ErrorReason::kDraining) << told;
  AwaitWaiters(other, kSessions);
  other.OpenGate("go");
  const std::multiset<int> served = herd.Served();
  EXPECT_EQ(served.count(wire::CompileResult::SERVED_FROM_COMPILE), 1u);
  EXPECT_EQ(asked->count(Count::kPlans), 0);
  EXPECT_EQ(other.count(Count::kPlans), 1);
  EXPECT_EQ(other.count(Count::kJobsStarted), 1);
}

// What the process of StartLeader does.
int Lead(const char* socket) {
  DaemonAddress address;
  address.socket = socket;
  const auto client = CompileClient::Connect(address);
  if (!client.ok()) return 1;
  return (*client)->Compile(ColdRequest(), {}).ok() ? 0 : 1;
}

// Both ends of each connection are in this process.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--lead") == 0)
    return kiln::Lead(argv[2]);
  kiln::RaiseDescriptorLimit();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

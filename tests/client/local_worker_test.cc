#include "client/local_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/graph_builder.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/digest.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/jail/jailed_child.h"
#include "tests/support/short_folder.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

// A request whose operator is an order to tests/support/fake_worker.
wire::CompileRequest Order(const std::string& order) {
  GraphBuilder g("order");
  const Value x = g.Input("x", {DType::kFloat32, {4}});
  g.Output(g.Node(order, {x}, {DType::kFloat32, {4}}));
  wire::CompileRequest request;
  *request.mutable_graph() = *g.Build();
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  return request;
}

LocalWorkerOptions FakeWorker() {
  return {.program = std::filesystem::absolute("tests/support/fake_worker"),
          .scratch_root = testing::TempDir(),
          .memory_bytes = kTestWorkerMemoryBytes};
}

TEST(LocalWorker, PlansBuildsAndAssembles) {
  LocalWorker worker(FakeWorker());
  const auto answer = worker.Compile(Order("fake.units.3"), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->units_built, 3);
  EXPECT_EQ(answer->artifact.xxh3(), Xxh3_64(answer->artifact.artifact()));
  EXPECT_TRUE(answer->artifact.signature().empty());
  wire::Artifact artifact;
  ASSERT_TRUE(artifact.ParseFromString(answer->artifact.artifact()));
  EXPECT_EQ(artifact.objects_size(), 3);
}

TEST(LocalWorker, EqualRequestsGiveEqualBytes) {
  LocalWorker one(FakeWorker());
  LocalWorker other(FakeWorker());
  const auto a = one.Compile(Order("fake.units.2"), {});
  const auto b = other.Compile(Order("fake.units.2"), {});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->artifact.artifact(), b->artifact.artifact());
}

TEST(LocalWorker, AWorkersErrorKeepsItsReason) {
  LocalWorker worker(FakeWorker());
  EXPECT_EQ(
      ReasonOf(worker.Compile(Order("fake.error.UNSUPPORTED_OP"), {}).status()),
      ErrorReason::kUnsupportedOp);
  // And the worker lives on.
  EXPECT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
}

TEST(LocalWorker, OneThatDiesSaysWhyAndTheNextCompileWorks) {
  LocalWorker worker(FakeWorker());
  const absl::Status died = worker.Compile(Order("fake.die.any"), {}).status();
  EXPECT_EQ(ReasonOf(died), ErrorReason::kWorkerDied);
  for (const absl::string_view due :
       {"graph order: planning", "signal 6", "dies as told"}) {
    EXPECT_NE(died.message().find(due), absl::string_view::npos) << died;
  }
  EXPECT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
}

TEST(LocalWorker, OneThatHangsIsEndedAtTheDeadline) {
  LocalWorker worker(FakeWorker());
  const absl::Status hung =
      worker
          .Compile(Order("fake.hang.any"),
                   {.deadline = SteadyIn(absl::Milliseconds(200))})
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(hung)) << hung;
  EXPECT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
}

TEST(LocalWorker, OneThatHangsIsEndedAtItsWallLimitWithoutADeadline) {
  LocalWorkerOptions options = FakeWorker();
  options.wall = absl::Milliseconds(200);
  LocalWorker worker(options);
  const absl::Status hung = worker.Compile(Order("fake.hang.any"), {}).status();
  EXPECT_EQ(ReasonOf(hung), ErrorReason::kWorkerDied) << hung;
  EXPECT_TRUE(absl::StrContains(hung.message(), "no reply within 200ms"))
      << hung;
}

TEST(LocalWorker, APlanOfMoreUnitsThanAreBuiltIsRefused) {
  LocalWorker worker(FakeWorker());
  const absl::Status refused =
      worker.Compile(Order("fake.units.4097"), {}).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kTooLarge) << refused;
  EXPECT_TRUE(absl::StrContains(
      refused.message(),
      "graph order: its plan has 4097 units, at most 4096 are built"))
      << refused;
  EXPECT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
}

TEST(LocalWorker, ACompilerDoesNotOutliveTheDeadline) {
  const std::string root = testing::TempDir() + "/with_compiler";
  std::filesystem::create_directory(root);
  ASSERT_EQ(mkfifo((root + "/pipe_a").c_str(), 0600), 0);
  ASSERT_EQ(chmod((root + "/pipe_a").c_str(), 0666), 0);  // another user's
  const int pipe =
      open((root + "/pipe_a").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  LocalWorkerOptions options = FakeWorker();
  options.scratch_root = root;
  LocalWorker worker(options);
  // The deadline passes while the worker's child runs, however late it starts.
  wire::CompileRequest request = Order("fake.orphan.a");
  *request.mutable_graph()->add_nodes() = request.graph().nodes(0);
  request.mutable_graph()->mutable_nodes(1)->set_op("fake.hang.any");
  absl::Status status;
  bool held = false;
  for (int seconds = 1; !held && seconds < 100; seconds *= 2) {
    status =
        worker.Compile(request, {.deadline = SteadyIn(absl::Seconds(seconds))})
            .status();
    ASSERT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    // Its end is seen only if somebody had held the pipe.
    pollfd entry = {.fd = pipe, .events = 0, .revents = 0};
    held = poll(&entry, 1, 1000) == 1 && (entry.revents & POLLHUP) != 0;
  }
  EXPECT_TRUE(held);
  close(pipe);
}

// Whether the jail that a worker has here keeps a file of this user from it.
bool JailHidesFiles() {
  auto child =
      JailedChild::Start({.program = FakeWorker().program,
                          .scratch_prefix = testing::TempDir() + "/probe"},
                         absl::Seconds(60));
  EXPECT_TRUE(child.ok()) << child.status();
  return geteuid() == 0 || (*child)->report().level >= JailLevel::kLandlock;
}

TEST(LocalWorker, IsInAJailAsADaemonsWorkersAre) {
  const ShortFolder folder;
  const std::string secret = folder.path() + "/secret";
  std::ofstream(secret) << "of this user";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  LocalWorkerOptions options = FakeWorker();
  if (kTestWorkerMemoryBytes != 0) options.memory_bytes = 256 << 20;
  LocalWorker worker(options);
  const absl::Status pried =
      worker
          .Compile(
              Order(absl::StrCat("fake.pry.", absl::BytesToHexString(secret))),
              {})
          .status();
  EXPECT_EQ(ReasonOf(pried), ErrorReason::kUnsupportedOp) << pried;
  EXPECT_EQ(absl::StrContains(pried.message(), "it is open"), !JailHidesFiles())
      << pried;
  // Memory and processes have ends, and the next worker is as good as new.
  if (kTestWorkerMemoryBytes != 0) {
    EXPECT_EQ(ReasonOf(worker.Compile(Order("fake.eat.any"), {}).status()),
              ErrorReason::kWorkerDied);
  }
  const absl::Status bombed =
      worker
          .Compile(Order("fake.bomb.any"),
                   {.deadline = SteadyIn(absl::Seconds(1))})
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(bombed)) << bombed;
  EXPECT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
}

TEST(LocalWorker, AProgramThatIsNotThereIsNamed) {
  LocalWorker worker(
      {.program = "/nowhere/kiln-worker", .scratch_root = testing::TempDir()});
  const absl::Status status =
      worker.Compile(Order("fake.units.1"), {}).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kNoToolchain);
  EXPECT_NE(status.message().find("/nowhere/kiln-worker"),
            absl::string_view::npos);
}

TEST(LocalWorker, LeavesNothingBehind) {
  const std::string root = testing::TempDir() + "/empty_after";
  std::filesystem::create_directory(root);
  {
    LocalWorkerOptions options = FakeWorker();
    options.scratch_root = root;
    LocalWorker worker(options);
    ASSERT_TRUE(worker.Compile(Order("fake.units.1"), {}).ok());
    EXPECT_FALSE(std::filesystem::is_empty(root));
  }
  EXPECT_TRUE(std::filesystem::is_empty(root));
}

}  // namespace
}  // namespace kiln

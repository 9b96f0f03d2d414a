#include "client/compile_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "client/daemon_status.h"
#include "gtest/gtest.h"
#include "proto/base/digest.h"
#include "proto/base/seal.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "server/job_table.h"
#include "tests/support/test_daemon.h"

// The client against a whole daemon behind a real socket; only the worker is
// one that does as told.

namespace kiln {
namespace {

DaemonAddress AddressOf(const TestDaemon& daemon) {
  DaemonAddress address;
  address.socket = daemon.config().socket;
  address.answer_timeout = absl::Seconds(60);
  return address;
}

std::unique_ptr<CompileClient> ConnectTo(const TestDaemon& daemon) {
  auto client = CompileClient::Connect(AddressOf(daemon));
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

TEST(CompileClient, TheSecondAskFindsItWithoutSendingTheGraph) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  const auto first = client->Compile(FakeRequest({"fake.units.2"}), {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->served_from, wire::CompileResult::SERVED_FROM_COMPILE);
  const int64_t calls = daemon.count(Count::kCallsCompile);

  const auto second = client->Compile(FakeRequest({"fake.units.2"}), {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->served_from, wire::CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(second->artifact.artifact(), first->artifact.artifact());
  EXPECT_EQ(daemon.count(Count::kCallsCompile), calls);
}

TEST(CompileClient, WhatItGetsIsSignedByTheKeyItLearned) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  const auto answer = client->Compile(FakeRequest({"fake.units.1"}), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(client->keys().rows().size(), 1);
  EXPECT_TRUE(OpenSeal(answer->artifact, client->keys()).ok());
}

TEST(CompileClient, AnErrorKeepsItsReason) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  const absl::Status status =
      client->Compile(FakeRequest({"fake.error.UNSUPPORTED_OP"}), {}).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp) << status;
}

TEST(CompileClient, AMalformedGraphIsRefusedBeforeAnythingIsSent) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  wire::CompileRequest request = FakeRequest({"fake.units.1"});
  request.mutable_graph()->mutable_outputs(0)->set_value(99);
  EXPECT_EQ(ReasonOf(client->Compile(request, {}).status()),
            ErrorReason::kMalformedGraph);
  EXPECT_EQ(daemon.count(Count::kCallsLookup), 0);
}

// Over the daemon's limit, over that of its door, over the client's own.
TEST(CompileClient, AMessageOverALimitIsTooLargeWithBothNumbers) {
  TestDaemon daemon([](Config& config) { config.max_message_bytes = 1 << 16; });
  DaemonAddress careful = AddressOf(daemon);
  careful.max_message_bytes = 1 << 19;
  struct Row {
    DaemonAddress address;
    int bytes;
    const char* due;
  };
  for (const Row& row : {Row{AddressOf(daemon), 100 << 10, "65536"},
                         Row{AddressOf(daemon), 1 << 20, "131072"},
                         Row{careful, 1 << 20, "524288"}}) {
    const auto client = CompileClient::Connect(row.address);
    ASSERT_TRUE(client.ok()) << client.status();
    const wire::CompileRequest request = RequestOfBytes(row.bytes);
    const absl::Status status = (*client)->Compile(request, {}).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kTooLarge) << status;
    EXPECT_TRUE(absl::StartsWith(status.message(), "compile: ")) << status;
    const std::string found = std::to_string(request.ByteSizeLong());
    EXPECT_TRUE(absl::StrContains(status.message(), found)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), row.due)) << status;
  }
  ExpectWellAndEmpty(daemon);
}

TEST(CompileClient, AHungCompileEndsAtTheDeadline) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  const absl::Status status =
      client
          ->Compile(FakeRequest({"fake.gate.never"}),
                    {.deadline = SteadyIn(absl::Milliseconds(100))})
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST(CompileClient, ADaemonThatSaysNothingInACompileIsGivenUp) {
  TestDaemon daemon;
  DaemonAddress address = AddressOf(daemon);
  // Less than its heartbeat: as if it had stopped.
  address.longest_silence = absl::Milliseconds(200);
  const auto client = CompileClient::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status outcome =
      (*client)->Compile(FakeRequest({"fake.gate.go"}), {}).status();
  EXPECT_TRUE(DaemonIsSilent(outcome)) << outcome;
  EXPECT_TRUE(absl::IsUnavailable(outcome)) << outcome;
  daemon.OpenGate("go");
}

TEST(CompileClient, ADaemonWithoutAPlaceIsAskedAgain) {
  TestDaemon daemon([](Config& config) { config.max_waiting_calls = 1; });
  const auto client = ConnectTo(daemon);
  std::thread first([&] {
    EXPECT_TRUE(client->Compile(FakeRequest({"fake.gate.go"}), {}).ok());
  });
  while (daemon.count(Count::kPlans) + daemon.count(Count::kJobsStarted) == 0)
    std::this_thread::yield();
  std::thread second([&] {
    EXPECT_TRUE(client->Compile(FakeRequest({"fake.salt.b"}), {}).ok());
  });
  while (daemon.count(Count::kCallsRefused) == 0) std::this_thread::yield();
  daemon.OpenGate("go");
  first.join();
  second.join();
  // Not beyond its deadline.
  std::thread third([&] {
    EXPECT_TRUE(client->Compile(FakeRequest({"fake.gate.go2"}), {}).ok());
  });
  while (daemon.count(Count::kJobsStarted) < 3) std::this_thread::yield();
  CompileCall call;
  call.deadline = SteadyIn(absl::Milliseconds(200));
  EXPECT_EQ(
      ReasonOf(client->Compile(FakeRequest({"fake.salt.c"}), call).status()),
      ErrorReason::kQueueFull);
  daemon.OpenGate("go2");
  third.join();
}

TEST(CompileClient, ALongCompileIsWaitedForWhileTheDaemonTellsOfIt) {
  TestDaemon daemon;
  DaemonAddress address = AddressOf(daemon);
  address.longest_silence = 2 * kHeartbeat;
  const auto client = CompileClient::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  int planning = 0;
  CompileCall call;
  call.on_progress = [&](const wire::Progress& progress) {
    if (progress.stage() != wire::Progress::STAGE_PLANNING) return;
    // The third is beyond the longest silence.
    if (++planning == 3) daemon.OpenGate("go");
  };
  const absl::Status outcome =
      (*client)->Compile(FakeRequest({"fake.gate.go"}), call).status();
  EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_EQ(planning, 3);
}

TEST(CompileClient, ProgressIsHeard) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  int heard = 0;
  CompileCall call;
  call.on_progress = [&heard](const wire::Progress&) { ++heard; };
  ASSERT_TRUE(client->Compile(FakeRequest({"fake.units.2"}), call).ok());
  EXPECT_GT(heard, 0);
}

TEST(CompileClient, ADaemonThatCameBackIsFoundAgain) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  ASSERT_TRUE(client->Compile(FakeRequest({"fake.units.1"}), {}).ok());
  daemon.Restart();
  const auto again = client->Compile(FakeRequest({"fake.units.1"}), {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->served_from, wire::CompileResult::SERVED_FROM_CACHE);
}

TEST(CompileClient, NoDaemonIsUnavailable) {
  TestDaemon daemon;
  const DaemonAddress address = AddressOf(daemon);
  daemon.Stop();
  EXPECT_TRUE(absl::IsUnavailable(CompileClient::Connect(address).status()));
}

// Listens, and never says a word. Its queue holds one connection more than
// `backlog`.
class SilentSocket {
 public:
  explicit SilentSocket(const std::string& path, int backlog = 4)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(listen(fd_, backlog), 0);
  }
  ~SilentSocket() { close(fd_); }

 private:
  const int fd_;
};

TEST(CompileClient, ADaemonThatSaysNothingIsNone) {
  TestDaemon daemon;
  DaemonAddress address = AddressOf(daemon);
  address.socket += "x";
  const SilentSocket silent(address.socket);
  address.answer_timeout = absl::Milliseconds(100);
  const absl::Status status = CompileClient::Connect(address).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(DaemonIsSilent(status)) << status;
}

TEST(CompileClient, ADaemonThatTakesNoMoreConnectionsIsAsSilent) {
  TestDaemon daemon;
  DaemonAddress address = AddressOf(daemon);
  address.socket += "x";
  const SilentSocket silent(address.socket, /*backlog=*/0);
  address.answer_timeout = absl::Milliseconds(100);
  address.connect_timeout = absl::Milliseconds(100);
  // One waits to be taken, for as long as it is open.
  const auto waiting = OpenDaemonChannel(address);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  const absl::Status status = CompileClient::Connect(address).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(DaemonIsSilent(status)) << status;
}

TEST(CompileClient, ADaemonThatListensMayBeSlowerToAnswerThanToListen) {
  TestDaemon daemon;
  DaemonAddress address = AddressOf(daemon);
  // Over before it begins: one that listens is connected to all the same.
  address.connect_timeout = -absl::Seconds(1);
  const auto client = CompileClient::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status answer =
      (*client)->Compile(FakeRequest({"fake.units.1"}), {}).status();
  EXPECT_TRUE(answer.ok()) << answer;
}

TEST(CompileClient, TcpNeedsAKeyOfItsOwn) {
  DaemonAddress address;
  address.tcp = "127.0.0.1:1";
  EXPECT_EQ(ReasonOf(CompileClient::Connect(address).status()),
            ErrorReason::kBadOption);
}

TEST(CompileClient, ManyThreadsAskForOneKeyAndOneCompileIsMade) {
  TestDaemon daemon;
  const auto client = ConnectTo(daemon);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&client] {
      EXPECT_TRUE(client->Compile(FakeRequest({"fake.units.3"}), {}).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Not jobs: one may begin as another ends, and find what that one stored.
  EXPECT_EQ(daemon.count(Count::kPlans), 1);
}

}  // namespace
}  // namespace kiln

#include "client/session.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"
#include "tests/support/worker_memory.h"

// Sessions on the null device, which takes every artifact and computes nothing,
// against a whole daemon whose worker does as told.

namespace kiln {
namespace {

std::string FakeWorker() {
  return std::filesystem::absolute("tests/support/fake_worker").string();
}

SessionOptions OptionsFor(const TestDaemon& daemon) {
  SessionOptions options;
  options.daemon.socket = daemon.config().socket;
  options.daemon.answer_timeout = absl::Seconds(60);
  options.device.kind = DeviceKind::kNull;
  options.local_worker = {.program = FakeWorker(),
                          .scratch_root = testing::TempDir(),
                          .memory_bytes = kTestWorkerMemoryBytes};
  return options;
}

std::shared_ptr<Session> Open(const SessionOptions& options) {
  auto session = Session::Open(options);
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? *session : nullptr;
}

wire::Graph Fake(const std::string& order) {
  return FakeRequest({order}).graph();
}

// The one input of a fake graph, with `size` elements.
std::vector<InputValue> Input(int64_t size) {
  alignas(64) static float memory[64];
  Tensor tensor;
  tensor.data = memory;
  tensor.sizes = {size};
  tensor.strides = {1};
  tensor.device = DeviceKind::kNull;
  return {tensor};
}

TEST(Session, CompilesOnceAndRuns) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  const auto callable = session->Compile(Fake("fake.units.2"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (const int64_t size : {8, 3, 17}) {
    const auto run = (*callable)->Run(Input(size));
    EXPECT_TRUE(run.ok()) << run.status();
  }
  EXPECT_EQ((*callable)->compiles(), 1);
  EXPECT_EQ(daemon.count(Count::kPlans), 1);
}

TEST(Session, StackTracesStayWithTheCallable) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  wire::Graph graph = Fake("fake.units.2");
  graph.mutable_nodes(0)->set_name("fake_7");
  graph.mutable_nodes(0)->set_stack_trace("/home/me/model.py:12");
  const auto request = session->RequestFor(graph, {});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(absl::StrContains(request->SerializeAsString(), "model.py"));
  const auto callable = session->Compile(graph);
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_STREQ((*callable)->Node(0).name, "fake_7");
  EXPECT_STREQ((*callable)->Node(0).stack_trace, "/home/me/model.py:12");
  EXPECT_STREQ((*callable)->Node(99).op, "");
}

TEST(Session, WithGraphsTheSecondRunIsRecordedAndTheThirdReplayed) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.graphs.emplace();
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.units.2"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  for (int i = 0; i < 4; ++i) {
    session->MarkStepBegin();
    const auto run = (*callable)->Run(Input(8));
    EXPECT_TRUE(run.ok()) << run.status();
  }
  ASSERT_NE(session->graphs(), nullptr);
  session->graphs()->Look([](const graph_tree::GraphTree& tree) {
    EXPECT_EQ(tree.counters().warm_ups, 1);
    EXPECT_EQ(tree.counters().recordings, 1);
    EXPECT_EQ(tree.counters().replays, 2);
  });
}

TEST(Session, ThreadsShareItsGraphs) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.graphs.emplace();
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  constexpr int kThreads = 4, kRuns = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRuns; ++i) {
        EXPECT_TRUE((*callable)->Run(Input(8)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  session->graphs()->Look([](const graph_tree::GraphTree& tree) {
    const graph_tree::TreeCounters& counters = tree.counters();
    EXPECT_EQ(counters.warm_ups + counters.recordings + counters.replays,
              kThreads * kRuns);
    EXPECT_GT(counters.replays, 0);
  });
}

TEST(Session, AGuardThatFailsIsForbiddenAndAnotherArtifactMade) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  const auto callable = session->Compile(Fake("fake.guard_mod.4"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->Run(Input(8)).ok());
  EXPECT_EQ((*callable)->compiles(), 1);
  const auto odd = (*callable)->Run(Input(9));
  EXPECT_TRUE(odd.ok()) << odd.status();
  EXPECT_EQ((*callable)->compiles(), 2);
  ASSERT_EQ((*callable)->failed_guards().size(), 1);
  EXPECT_TRUE(absl::StartsWith((*callable)->failed_guards()[0], "guard "));
  EXPECT_TRUE((*callable)->Run(Input(11)).ok());
  EXPECT_TRUE((*callable)->Run(Input(12)).ok());
  EXPECT_EQ((*callable)->compiles(), 2);
}

TEST(Session, InputsOfAnotherGraphAreRefusedInWords) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  const auto callable = session->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok());
  std::vector<InputValue> halves = Input(8);
  std::get<Tensor>(halves[0]).dtype = DType::kFloat16;
  const absl::Status status = (*callable)->Run(halves).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kGuardFailed);
  EXPECT_EQ(status.message(), "input 0: f16, expected f32");
}

TEST(Session, WithoutADaemonItIsAnError) {
  TestDaemon daemon;
  const SessionOptions options = OptionsFor(daemon);
  daemon.Stop();
  EXPECT_TRUE(absl::IsUnavailable(Session::Open(options).status()));
}

TEST(Session, WithoutADaemonALocalWorkerCompilesIfItMay) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.fallback = Fallback::kLocalWorker;
  daemon.Stop();
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.units.2"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->report().by_local_worker);
  EXPECT_TRUE((*callable)->Run(Input(8)).ok());
}

TEST(Session, AHungDaemonIsLeftForALocalWorkerAtTheDeadline) {
  TestDaemon daemon([](Config& config) { config.worker_count = 1; });
  // The daemon's only worker waits for a gate that the local one finds open.
  const std::string root = testing::TempDir() + "/hung";
  std::filesystem::create_directory(root);
  SessionOptions options = OptionsFor(daemon);
  options.fallback = Fallback::kLocalWorker;
  options.compile_deadline = absl::Milliseconds(300);
  options.local_worker.scratch_root = root;
  fclose(fopen((root + "/gate_slow").c_str(), "w"));
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.gate.slow"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->report().by_local_worker);
  EXPECT_TRUE(absl::IsDeadlineExceeded((*callable)->report().daemon_status));
}

TEST(Session, AGraphThatIsWrongIsWrongEverywhere) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.fallback = Fallback::kLocalWorker;
  const auto session = Open(options);
  const absl::Status status =
      session->Compile(Fake("fake.error.UNSUPPORTED_OP")).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnsupportedOp);
  EXPECT_EQ(daemon.count(Count::kPlans), 0);
}

TEST(Session, AnotherSignersArtifactsAreNotLoaded) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.daemon.public_keys = {SigningKey::Generate()->public_key()};
  const auto session = Open(options);
  EXPECT_EQ(ReasonOf(session->Compile(Fake("fake.units.1")).status()),
            ErrorReason::kArtifactUntrusted);
}

TEST(Session, ADaemonThatLiesIsLeftForALocalWorker) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.fallback = Fallback::kLocalWorker;
  options.daemon.public_keys = {SigningKey::Generate()->public_key()};
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->report().by_local_worker);
  EXPECT_EQ(ReasonOf((*callable)->report().daemon_status),
            ErrorReason::kArtifactUntrusted);
}

TEST(Session, UnsignedArtifactsOfADaemonAreNeverLoaded) {
  for (const Fallback fallback : {Fallback::kError, Fallback::kLocalWorker}) {
    TestDaemon daemon;
    SessionOptions options = OptionsFor(daemon);
    options.fallback = fallback;
    const auto session = Open(options);
    wire::CompileRequest request = FakeRequest({"fake.units.1"});
    *request.mutable_target() = session->target();
    CompileReport report;
    auto answer = session->CompileOnly(request, report);
    ASSERT_TRUE(answer.ok()) << answer.status();
    answer->artifact.clear_signature();
    EXPECT_EQ(
        ReasonOf(
            session->Load(answer->artifact, answer->request_digest).status()),
        ErrorReason::kArtifactUntrusted);
    EXPECT_EQ(session->refused_artifacts(), 1);
  }
}

// What another client of the same daemon gets for the fake graph of `order`.
CompileOutcome Compiled(Session& session, const std::string& order,
                        int64_t size = 8) {
  wire::CompileRequest request = FakeRequest({order}, size);
  *request.mutable_target() = session.target();
  CompileReport report;
  auto outcome = session.CompileOnly(request, report);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *std::move(outcome) : CompileOutcome();
}

TEST(Session, ASwapServesTheNextRunWhileOthersGoOn) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  const auto callable = session->Compile(Fake("fake.units.3"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  const CompileOutcome again = Compiled(*session, "fake.units.3");
  const auto first = (*callable)->executor();

  std::atomic<bool> stop = false;
  std::thread runner([&] {
    while (!stop) EXPECT_TRUE((*callable)->Run(Input(8)).ok());
  });
  for (int i = 0; i < 20; ++i) {
    const absl::Status swapped = (*callable)->Swap(0, again.artifact);
    EXPECT_TRUE(swapped.ok()) << swapped;
  }
  stop = true;
  runner.join();
  EXPECT_NE((*callable)->executor(), first);
  EXPECT_EQ(session->refused_artifacts(), 0);
}

TEST(Session, AnotherGraphsArtifactIsNotSwappedIn) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  const auto callable = session->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  const auto first = (*callable)->executor();
  // Of equal interface, and signed by the daemon.
  const CompileOutcome other = Compiled(*session, "fake.units.3");
  const absl::Status swapped = (*callable)->Swap(0, other.artifact);
  EXPECT_EQ(ReasonOf(swapped), ErrorReason::kArtifactIncompatible) << swapped;
  EXPECT_EQ((*callable)->executor(), first);
  EXPECT_EQ(session->refused_artifacts(), 1);
}

TEST(Session, AnArtifactThatReliesOnMoreIsNotSwappedIn) {
  TestDaemon daemon;
  const auto session = Open(OptionsFor(daemon));
  // Both of one key: the daemon forbids the guard for 13.
  const CompileOutcome even = Compiled(*session, "fake.guard_mod.4", 16);
  const CompileOutcome odd = Compiled(*session, "fake.guard_mod.4", 13);
  EXPECT_EQ(odd.request_digest, even.request_digest);
  wire::CompileRequest request = FakeRequest({"fake.guard_mod.4"}, 13);
  const auto callable = session->Compile(request.graph());
  ASSERT_TRUE(callable.ok()) << callable.status();
  ASSERT_TRUE((*callable)->Run(Input(13)).ok());
  EXPECT_EQ(ReasonOf((*callable)->Swap(0, even.artifact)),
            ErrorReason::kArtifactIncompatible);
  EXPECT_TRUE((*callable)->Swap(0, odd.artifact).ok());
}

// A daemon that is what it says it is, and answers every graph with the
// artifact of one and the same: sound, signed by the key it names, compiled for
// this target.
class LyingDaemon : public wire::CompileService::Service {
 public:
  LyingDaemon(TestDaemon& behind, wire::CompileRequest instead)
      : behind_(behind), instead_(std::move(instead)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~LyingDaemon() override { server_->Shutdown(); }

  std::string socket() const { return behind_.config().socket + "-liar"; }

  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest* ask,
                        wire::DescribeReply* reply) override {
    grpc::ClientContext context;
    return CompileStub(behind_.client())->Describe(&context, *ask, reply);
  }
  grpc::Status Lookup(grpc::ServerContext*, const wire::LookupRequest*,
                      wire::LookupReply* reply) override {
    if (!lies_in_lookup) {
      reply->set_outcome(wire::LookupReply::OUTCOME_MISS);
      return grpc::Status::OK;
    }
    reply->set_outcome(wire::LookupReply::OUTCOME_HIT);
    *reply->mutable_artifact() =
        behind_.client().Compile(instead_).result.artifact();
    return grpc::Status::OK;
  }
  grpc::Status Compile(grpc::ServerContext*, const wire::CompileRequest*,
                       grpc::ServerWriter<wire::CompileEvent>* out) override {
    wire::CompileEvent event;
    *event.mutable_result() = behind_.client().Compile(instead_).result;
    out->Write(event);
    return grpc::Status::OK;
  }

  std::atomic<bool> lies_in_lookup = false;

 private:
  TestDaemon& behind_;
  const wire::CompileRequest instead_;
  std::unique_ptr<grpc::Server> server_;
};

// As a daemon of another version may be, or another program on its socket.
TEST(Session, WhatKnowsNoCallOfOursIsLeftForALocalWorker) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  options.daemon.socket += "-other";
  wire::CompileService::Service knows_none;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + options.daemon.socket,
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&knows_none);
  const auto server = builder.BuildAndStart();
  EXPECT_TRUE(absl::IsUnimplemented(Session::Open(options).status()));

  options.fallback = Fallback::kLocalWorker;
  const auto session = Open(options);
  const auto callable = session->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->report().by_local_worker);
  EXPECT_TRUE(absl::IsUnimplemented((*callable)->report().daemon_status));
  server->Shutdown();
}

TEST(Session, AnArtifactOfAnotherKeyIsNotLoaded) {
  TestDaemon daemon;
  SessionOptions options = OptionsFor(daemon);
  wire::CompileRequest instead = FakeRequest({"fake.units.3"});
  *instead.mutable_target() = Open(options)->target();
  LyingDaemon liar(daemon, instead);
  options.daemon.socket = liar.socket();
  const auto session = Open(options);
  for (const bool in_lookup : {false, true}) {
    liar.lies_in_lookup = in_lookup;
    const absl::Status status = session->Compile(Fake("fake.units.1")).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kArtifactIncompatible) << status;
    EXPECT_NE(status.message().find("answers request"), std::string::npos)
        << status;
  }
  EXPECT_EQ(session->refused_artifacts(), 2);
  // The graph whose artifact it is gets it.
  EXPECT_TRUE(session->Compile(Fake("fake.units.3")).ok());

  options.fallback = Fallback::kLocalWorker;
  const auto careful = Open(options);
  const auto callable = careful->Compile(Fake("fake.units.1"));
  ASSERT_TRUE(callable.ok()) << callable.status();
  EXPECT_TRUE((*callable)->report().by_local_worker);
  EXPECT_EQ(careful->refused_artifacts(), 1);
}

}  // namespace
}  // namespace kiln

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "client/compile_client.h"
#include "client/daemon_status.h"
#include "client/session.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/null_session.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

// Sessions on the null device whose kilnd is stopped, so that it takes
// connections and does not answer, and let go on.

namespace kiln {
namespace {

class Kilnd {
 public:
  Kilnd()
      : socket_(folder_.path() + "/kilnd.sock"),
        child_(*Child::Start(
            {.program = std::filesystem::absolute("server/kilnd"),
             .args = {"--socket", socket_, "--data-folder",
                      folder_.path() + "/data", "--worker",
                      std::filesystem::absolute("tests/support/fake_worker"),
                      "--workers", "1"},
             .output_file = folder_.path() + "/out"})) {
    // It is the start that is waited for.
    while (!CompileClient::Connect({.socket = socket_}).ok()) {
    }
  }
  const std::string& socket() const { return socket_; }
  void Signal(int signal) const { ASSERT_EQ(kill(child_.pid(), signal), 0); }
  // Stopped already when this returns.
  void Stop() const {
    Signal(SIGSTOP);
    siginfo_t stopped = {};
    ASSERT_EQ(waitid(P_PID, child_.pid(), &stopped, WSTOPPED | WNOWAIT), 0);
  }
  void End() { child_.End(); }

 private:
  const ShortFolder folder_;
  const std::string socket_;
  Child child_;
};

SessionOptions OptionsFor(const std::string& socket) {
  SessionOptions options = NullSessionOptions(socket);
  // What a silent daemon costs, and time enough for one that goes on.
  options.daemon.answer_timeout = absl::Seconds(5);
  options.silence_pause = absl::InfiniteDuration();
  return options;
}

std::shared_ptr<Session> Open(const SessionOptions& options) {
  auto session = Session::Open(options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(SilentDaemon, IsLeftAloneByTheCompilesAfterTheOneItDidNotAnswer) {
  Kilnd kilnd;
  SessionOptions options = OptionsFor(kilnd.socket());
  int looked = 0;
  options.find_daemon = [&] {
    ++looked;
    return options.daemon;
  };
  const auto session = Open(options);
  EXPECT_FALSE(ReportOf(session, "fake.units.1").by_local_worker);
  kilnd.Stop();
  const CompileReport first = ReportOf(session, "fake.units.2");
  EXPECT_TRUE(first.by_local_worker);
  EXPECT_TRUE(DaemonIsSilent(first.daemon_status)) << first.daemon_status;
  kilnd.Signal(SIGCONT);  // it would answer
  for (const char* order : {"fake.units.3", "fake.units.4"}) {
    const CompileReport next = ReportOf(session, order);
    EXPECT_TRUE(next.by_local_worker);
    EXPECT_EQ(next.daemon_status, first.daemon_status);
  }
  EXPECT_EQ(looked, 1);
}

TEST(SilentDaemon, IsAskedAgainAfterThePauseAndUsedOnceItAnswers) {
  Kilnd kilnd;
  SessionOptions options = OptionsFor(kilnd.socket());
  options.silence_pause = absl::Nanoseconds(1);
  const auto session = Open(options);
  kilnd.Stop();
  EXPECT_TRUE(ReportOf(session, "fake.units.1").by_local_worker);
  kilnd.Signal(SIGCONT);
  for (const char* order : {"fake.units.2", "fake.units.3"}) {
    const CompileReport report = ReportOf(session, order);
    EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
  }
}

// Forwards to a daemon what it is asked, but answers lookups and the first
// `early` questions who it is like a daemon that was stopped until now: their
// deadline was over before they came.
class Thawed final : public wire::CompileService::Service {
 public:
  explicit Thawed(TestDaemon& behind) : behind_(behind) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Thawed() override { server_->Shutdown(); }

  std::string socket() const { return behind_.config().socket + "-thawed"; }

  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest* ask,
                        wire::DescribeReply* reply) override {
    if (described++ < early) return Over();
    grpc::ClientContext context;
    return CompileStub(behind_.client())->Describe(&context, *ask, reply);
  }
  grpc::Status Lookup(grpc::ServerContext*, const wire::LookupRequest*,
                      wire::LookupReply*) override {
    ++lookups;
    return Over();
  }
  grpc::Status Compile(grpc::ServerContext*, const wire::CompileRequest* ask,
                       grpc::ServerWriter<wire::CompileEvent>* out) override {
    wire::CompileEvent event;
    *event.mutable_result() = behind_.client().Compile(*ask).result;
    out->Write(event);
    return grpc::Status::OK;
  }
  std::atomic<int> early = 0, described = 0, lookups = 0;

 private:
  static grpc::Status Over() {
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "over");
  }

  TestDaemon& behind_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(SilentDaemon, IsNoneThatSaysTooEarlyThatTimeIsOver) {
  TestDaemon daemon;
  Thawed thawed(daemon);
  const auto session = Open(OptionsFor(thawed.socket()));
  const CompileReport report = ReportOf(session, "fake.units.1");
  EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
  EXPECT_EQ(thawed.lookups, 1);
  EXPECT_EQ(daemon.count(Count::kPlans), 1);
}

TEST(SilentDaemon, IsNoneThatSaysSoWhenItIsAskedWhoItIs) {
  TestDaemon daemon;
  Thawed thawed(daemon);
  thawed.early = 1;
  const auto session = Open(OptionsFor(thawed.socket()));
  const CompileReport report = ReportOf(session, "fake.units.1");
  EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
  EXPECT_GE(thawed.described, 2);
}

TEST(SilentDaemon, IsOneThatSaysSoEachTimeItIsAskedWhoItIs) {
  TestDaemon daemon;
  Thawed thawed(daemon);
  thawed.early = 1000;
  const auto session = Open(OptionsFor(thawed.socket()));
  const CompileReport report = ReportOf(session, "fake.units.1");
  EXPECT_TRUE(report.by_local_worker);
  EXPECT_TRUE(DaemonIsSilent(report.daemon_status)) << report.daemon_status;
}

TEST(SilentDaemon, ThatASessionMetWhenItWasOpenedIsLeftAloneByItsCompiles) {
  Kilnd kilnd;
  kilnd.Stop();
  const auto session = Open(OptionsFor(kilnd.socket()));
  kilnd.Signal(SIGCONT);
  const CompileReport report = ReportOf(session, "fake.units.1");
  EXPECT_TRUE(report.by_local_worker);
  EXPECT_TRUE(DaemonIsSilent(report.daemon_status)) << report.daemon_status;
}

TEST(SilentDaemon, GivesWayToAnotherThatIsFoundElsewhere) {
  Kilnd kilnd;
  TestDaemon other;
  SessionOptions options = OptionsFor(kilnd.socket());
  int looked = 0;
  options.find_daemon = [&] {
    ++looked;
    DaemonAddress address = options.daemon;
    address.socket = other.config().socket;
    return address;
  };
  const auto session = Open(options);
  kilnd.Stop();
  for (const char* order : {"fake.units.1", "fake.units.2"}) {
    const CompileReport report = ReportOf(session, order);
    EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
  }
  EXPECT_EQ(looked, 1);
  EXPECT_EQ(other.count(Count::kPlans), 2);
}

TEST(SilentDaemon, ThatIsKilledIsReplacedAsAnyThatIsGone) {
  Kilnd kilnd;
  TestDaemon other;
  SessionOptions options = OptionsFor(kilnd.socket());
  options.silence_pause = absl::Nanoseconds(1);
  std::string place = kilnd.socket();
  options.find_daemon = [&] {
    DaemonAddress address = options.daemon;
    address.socket = place;
    return address;
  };
  const auto session = Open(options);
  kilnd.Stop();
  EXPECT_TRUE(ReportOf(session, "fake.units.1").by_local_worker);
  kilnd.End();
  place = other.config().socket;
  const CompileReport report = ReportOf(session, "fake.units.2");
  EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
}

TEST(SilentDaemon, IsAskedByEachCompileThatHasNoLocalWorker) {
  Kilnd kilnd;
  SessionOptions options = OptionsFor(kilnd.socket());
  options.fallback = Fallback::kError;
  const auto session = Open(options);
  kilnd.Stop();
  const wire::Graph graph = FakeRequest({"fake.units.1"}).graph();
  const absl::Status silent = session->Compile(graph).status();
  EXPECT_TRUE(DaemonIsSilent(silent)) << silent;
  kilnd.Signal(SIGCONT);
  const auto callable = session->Compile(graph);
  EXPECT_TRUE(callable.ok()) << callable.status();
}

}  // namespace
}  // namespace kiln

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "client/session.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/compile_service.grpc.pb.h"
#include "tests/support/null_session.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

// Sessions on the null device whose daemon goes while they are open.

namespace kiln {
namespace {

TEST(LostDaemon, OneThatWasStartedInItsPlaceIsAskedBeforeALocalWorker) {
  TestDaemon daemon;
  SessionOptions options = NullSessionOptions(daemon.config().socket);
  int asked = 0;
  options.find_daemon = [&] {
    ++asked;
    daemon.Restart();
    return options.daemon;
  };
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_FALSE(ReportOf(*session, "fake.units.1").by_local_worker);
  EXPECT_EQ(asked, 0);
  daemon.Stop();
  for (const char* order : {"fake.units.2", "fake.units.3"}) {
    const CompileReport report = ReportOf(*session, order);
    EXPECT_FALSE(report.by_local_worker);
    EXPECT_TRUE(report.daemon_status.ok()) << report.daemon_status;
    EXPECT_EQ(asked, 1);
  }
}

TEST(LostDaemon, OneInAnotherPlaceIsAskedFromThenOnAndItsSignatureTaken) {
  TestDaemon first;
  TestDaemon second;
  SessionOptions options = NullSessionOptions(first.config().socket);
  int asked = 0;
  options.find_daemon = [&] {
    ++asked;
    DaemonAddress address = options.daemon;
    address.socket = second.config().socket;
    return address;
  };
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  first.Stop();
  for (const char* order : {"fake.units.2", "fake.units.3"}) {
    EXPECT_FALSE(ReportOf(*session, order).by_local_worker);
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(second.count(Count::kPlans), 2);
}

TEST(LostDaemon, WithoutAnotherALocalWorkerCompiles) {
  TestDaemon daemon;
  SessionOptions options = NullSessionOptions(daemon.config().socket);
  int asked = 0;
  options.find_daemon = [&]() -> std::optional<DaemonAddress> {
    ++asked;
    return std::nullopt;
  };
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  daemon.Stop();
  const CompileReport report = ReportOf(*session, "fake.units.2");
  EXPECT_TRUE(report.by_local_worker);
  EXPECT_TRUE(absl::IsUnavailable(report.daemon_status))
      << report.daemon_status;
  EXPECT_EQ(asked, 1);
}

TEST(LostDaemon, NoneIsLookedForWhileOneAnswersThatItCannot) {
  TestDaemon daemon;
  SessionOptions options = NullSessionOptions(daemon.config().socket);
  int asked = 0;
  options.find_daemon = [&] {
    ++asked;
    return options.daemon;
  };
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto refused =
      (*session)->Compile(FakeRequest({"fake.error.NO_TOOLCHAIN"}).graph());
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kNoToolchain);
  EXPECT_EQ(asked, 0);
}

// Says who it is, and cancels what it is asked, as a server that ends does.
class EndingService final : public wire::CompileService::Service {
 public:
  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest*,
                        wire::DescribeReply* reply) override {
    reply->set_public_key(std::string(key_.public_key().bytes()));
    return grpc::Status::OK;
  }
  grpc::Status Lookup(grpc::ServerContext*, const wire::LookupRequest*,
                      wire::LookupReply*) override {
    ++lookups;
    return grpc::Status::CANCELLED;
  }
  std::atomic<int> lookups = 0;

 private:
  const SigningKey key_ = *SigningKey::Generate();
};

TEST(LostDaemon, OneThatCancelsWhatItIsAskedIsGone) {
  const ShortFolder folder;
  const std::string socket = folder.path() + "/kilnd.sock";
  EndingService ending;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&ending);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  const auto local = Session::Open(NullSessionOptions(socket));
  ASSERT_TRUE(local.ok()) << local.status();
  const CompileReport report = ReportOf(*local, "fake.units.1");
  EXPECT_TRUE(report.by_local_worker);
  EXPECT_TRUE(absl::IsCancelled(report.daemon_status)) << report.daemon_status;
  EXPECT_EQ(ending.lookups, 2);  // again over a new connection

  TestDaemon daemon;
  SessionOptions options = NullSessionOptions(socket);
  options.find_daemon = [&] {
    DaemonAddress address = options.daemon;
    address.socket = daemon.config().socket;
    return address;
  };
  const auto session = Session::Open(options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_FALSE(ReportOf(*session, "fake.units.1").by_local_worker);
  server->Shutdown();
}

}  // namespace
}  // namespace kiln

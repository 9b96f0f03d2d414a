// Networks that fall apart and lose packets: real daemons and a real Redis, each on
// a machine of its own (tests/support/test_network.h), and clients beside them.
//
//   partition_test [SECONDS]   how long a client is cut off, at least (0)
//
// What must hold: who waits for the network waits no longer than its budget, says
// why, and goes on; while it is cut a key is compiled once on each side; and once
// it is whole all is as before, without anybody's help.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/daemon_status.h"
#include "client/session.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_process.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/null_session.h"
#include "tests/support/redis_server.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/test_network.h"

namespace kiln {
namespace {

using wire::CompileResult;

constexpr int kFirst = 0;
constexpr int kSecond = 1;
constexpr int kStore = 2;
constexpr int kTest = TestNetwork::kTest;

absl::Duration long_cut = absl::ZeroDuration();

wire::CompileRequest Salted(int number) {
  return FakeRequest({absl::StrCat("fake.salt.", number)});
}

// Two daemons that believe each other, a store that they share.
class PartitionTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string lacks = TestNetwork::WhyNot();
    if (!lacks.empty()) GTEST_SKIP() << lacks;
    network_.emplace(3);
    network_->On(kStore, [this] {
      redis_ = std::make_unique<RedisServer>(std::vector<std::string>{
          "--bind", "0.0.0.0", "--protected-mode", "no"});
    });
    ca_.emplace(folder_.path(), "ca");
    first_ = StartDaemon(kFirst, "");
    second_ = StartDaemon(kSecond, first_->signing_key());
  }

  std::unique_ptr<DaemonProcess> StartDaemon(int machine,
                                             const std::string& signing_key) {
    const std::string address = network_->Address(machine);
    const TestCa::Files own = ca_->Issue(address, absl::StrCat("d", machine));
    const std::string listen =
        absl::StrCat("tcp = \"", address, ":7117\"\ntls_certificate = \"",
                     own.certificate, "\"\ntls_key = \"", own.key,
                     "\"\ntls_client_ca = \"", ca_->file(), "\"\n");
    const std::string tables =
        absl::StrCat("[far]\naddresses = [\"", network_->Address(kStore), ":",
                     redis_->port(), "\"]\nlease_wait = \"10m\"\n",
                     "[[access]]\nwho = \"cert:rank\"\nrole = \"submitter\"\n",
                     "namespaces = [\"default\"]\n");
    std::unique_ptr<DaemonProcess> daemon;
    network_->On(machine, [&] {
      daemon = std::make_unique<DaemonProcess>(tables, listen, signing_key);
    });
    return daemon;
  }

  // Of a client here that knows these machines' daemons, and gives a silent one up
  // after seconds.
  SessionOptions ClientOf(const std::vector<int>& machines) {
    const TestCa::Files own = ca_->Issue("rank", "rank");
    grpc::ClientContext context;
    wire::DescribeReply about;
    EXPECT_TRUE(
        CompileStub(first_->client())->Describe(&context, {}, &about).ok());
    SessionOptions options = NullSessionOptions("");
    options.silence_pause = absl::Milliseconds(100);
    for (const int machine : machines) {
      DaemonAddress address;
      address.tcp = absl::StrCat(network_->Address(machine), ":7117");
      address.tls = {
          .ca = ca_->file(), .certificate = own.certificate, .key = own.key};
      address.public_keys = {*PublicKey::FromBytes(about.public_key())};
      address.answer_timeout = absl::Seconds(2);
      address.longest_silence = absl::Seconds(5);
      if (machine == machines.front()) {
        options.daemon = std::move(address);
      } else {
        options.more_daemons.push_back(std::move(address));
      }
    }
    return options;
  }

  static std::shared_ptr<Session> Open(SessionOptions options) {
    auto session = Session::Open(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }

  // The second daemon has, at some time, what the first one makes now, and makes
  // nothing itself.
  void ExpectTheyShareAgain(int number) {
    const int64_t plans = second_->Count("plans");
    ASSERT_TRUE(first_->client().Compile(Salted(number)).status.ok());
    const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
    while (second_->client().Lookup(LookupFor(Salted(number)))->outcome() !=
           wire::LookupReply::OUTCOME_HIT) {
      ASSERT_LT(SteadyNow(), patience);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      // The first one's writes may have been dropped while it left the store alone.
      if (first_->Count("far.writes_dropped") > dropped_) {
        dropped_ = first_->Count("far.writes_dropped");
        ASSERT_TRUE(first_->client().Compile(Salted(++number)).status.ok());
      }
    }
    EXPECT_EQ(second_->Count("plans"), plans);
  }

  const ShortFolder folder_;
  std::optional<TestNetwork> network_;
  std::optional<TestCa> ca_;
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<DaemonProcess> first_;
  std::unique_ptr<DaemonProcess> second_;
  int64_t dropped_ = 0;
};

// Calls of one request, each on a thread of its own.
class Callers {
 public:
  Callers(int callers, DaemonProcess& daemon,
          const wire::CompileRequest& request)
      : answers_(callers) {
    for (CompileAnswer& answer : answers_) {
      threads_.emplace_back([&answer, &daemon, request] {
        TestClient client(daemon.socket());
        answer = client.Compile(request);
      });
    }
  }
  const std::vector<CompileAnswer>& Answers() {
    for (std::thread& thread : threads_) thread.join();
    return answers_;
  }

 private:
  std::vector<CompileAnswer> answers_;
  std::vector<std::thread> threads_;
};

TEST_F(PartitionTest, WithTheStoreCutOffLooksEndWithTheirBudgetsUntilItIsBack) {
  ASSERT_TRUE(first_->client().Compile(Salted(1)).status.ok());
  first_->Await("far.writes", 2);
  ASSERT_EQ(second_->client().Lookup(LookupFor(Salted(1)))->outcome(),
            wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(second_->Count("far.hits"), 1);
  ASSERT_TRUE(first_->client().Compile(Salted(2)).status.ok());
  first_->Await("far.writes", 4);

  network_->Cut(kSecond, kStore);
  EXPECT_EQ(second_->client().Lookup(LookupFor(Salted(2)))->outcome(),
            wire::LookupReply::OUTCOME_MISS);
  EXPECT_EQ(second_->Count("far.timeouts"), 1);
  // From now on it is left alone; on a busy machine a pause may be over already.
  int asked = 1;
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  for (; second_->Count("far.breaker_open") == 0; ++asked) {
    ASSERT_LT(SteadyNow(), patience);
    EXPECT_EQ(second_->client().Lookup(LookupFor(Salted(2)))->outcome(),
              wire::LookupReply::OUTCOME_MISS);
  }
  // One that comes while the look before it ends shares that.
  EXPECT_LE(second_->Count("far.timeouts") + second_->Count("far.breaker_open"),
            asked);
  EXPECT_EQ(second_->Count("far.errors"), 0);
  // What is near is served, what is not is compiled.
  EXPECT_EQ(second_->client().Lookup(LookupFor(Salted(1)))->outcome(),
            wire::LookupReply::OUTCOME_HIT);
  EXPECT_EQ(second_->client().Compile(Salted(3)).result.served_from(),
            CompileResult::SERVED_FROM_COMPILE);
  EXPECT_EQ(second_->Count("lease.waited"), 0);

  network_->Heal();
  while (second_->client().Lookup(LookupFor(Salted(2)))->outcome() !=
         wire::LookupReply::OUTCOME_HIT) {
    ASSERT_LT(SteadyNow(), patience);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(second_->Count("far.hits"), 2);
  EXPECT_EQ(second_->Count("plans"), 1);
}

TEST_F(PartitionTest, EachSideCompilesAKeyOnce) {
  network_->Cut(kSecond, kStore);
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Callers here(4, *first_, request);
  Callers there(4, *second_, request);
  first_->Await("lease.taken", 1);
  second_->Await("lease.skipped", 1);
  first_->OpenGate("a");
  second_->OpenGate("a");
  const std::vector<CompileAnswer>& ours = here.Answers();
  const std::vector<CompileAnswer>& theirs = there.Answers();
  for (const std::vector<CompileAnswer>* side : {&ours, &theirs}) {
    for (const CompileAnswer& answer : *side) {
      ASSERT_TRUE(answer.status.ok()) << answer.status;
      EXPECT_EQ(answer.result.artifact().artifact(),
                ours[0].result.artifact().artifact());
    }
  }
  EXPECT_EQ(first_->Count("plans"), 1);
  EXPECT_EQ(second_->Count("plans"), 1);

  network_->Heal();
  ExpectTheyShareAgain(1);
  for (const auto& daemon : {first_.get(), second_.get()})
    EXPECT_EQ(daemon->client().Compile(request).result.served_from(),
              CompileResult::SERVED_FROM_CACHE);
}

TEST_F(PartitionTest, AHolderThatIsCutOffHoldsTheOtherSideUpForALeasesLife) {
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Callers here(2, *first_, request);
  first_->Await("lease.taken", 1);
  Callers there(2, *second_, request);
  second_->Await("lease.waited", 1);
  network_->Cut(kFirst, kStore);
  second_->Await("lease.taken", 1);
  first_->OpenGate("a");
  second_->OpenGate("a");
  for (const CompileAnswer& answer : here.Answers())
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  for (const CompileAnswer& answer : there.Answers())
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(first_->Count("plans"), 1);
  EXPECT_EQ(second_->Count("plans"), 1);
  EXPECT_EQ(second_->Count("lease.waits_ended"), 0);

  network_->Heal();
  ExpectTheyShareAgain(1);
}

TEST_F(PartitionTest,
       ADaemonThatWaitsForTheOtherSideStopsWaitingWhenItIsCutOff) {
  const wire::CompileRequest request = FakeRequest({"fake.gate.a"});
  Callers here(2, *first_, request);
  first_->Await("lease.taken", 1);
  Callers there(2, *second_, request);
  second_->Await("lease.waited", 1);
  second_->OpenGate("a");
  network_->Cut(kSecond, kStore);
  for (const CompileAnswer& answer : there.Answers())
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(second_->Count("lease.skipped"), 1);
  EXPECT_EQ(second_->Count("plans"), 1);
  first_->OpenGate("a");
  for (const CompileAnswer& answer : here.Answers())
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(first_->Count("plans"), 1);

  network_->Heal();
  ExpectTheyShareAgain(1);
}

TEST_F(PartitionTest, AClientThatIsCutOffIsToldSoAndFindsItsArtifactLater) {
  SessionOptions options = ClientOf({kFirst});
  options.fallback = Fallback::kError;
  const auto session = Open(options);
  const wire::Graph graph = FakeRequest({"fake.gate.a"}).graph();
  absl::Status told;
  std::thread waits([&] { told = session->Compile(graph).status(); });
  first_->Await("lease.taken", 1);
  network_->Cut(kTest, kFirst);
  waits.join();
  EXPECT_TRUE(DaemonIsSilent(told)) << told;
  // So are all that come after it, for as long as it is cut off.
  const SteadyTime long_enough = After(SteadyNow(), long_cut);
  do {
    const absl::Status next = session->Compile(graph).status();
    EXPECT_TRUE(DaemonIsNotThere(next)) << next;
  } while (SteadyNow() < long_enough);
  // The job goes on.
  first_->OpenGate("a");
  first_->Await("jobs.done", 1);

  network_->Heal();
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  auto again = session->Compile(graph);
  while (!again.ok()) {
    ASSERT_TRUE(DaemonIsNotThere(again.status())) << again.status();
    ASSERT_LT(SteadyNow(), patience);
    again = session->Compile(graph);
  }
  EXPECT_EQ((*again)->report().served_from, CompileResult::SERVED_FROM_CACHE);
  EXPECT_EQ(first_->Count("plans"), 1);
}

TEST_F(PartitionTest, AClientThatIsCutOffFromOneDaemonGoesOnWithTheOther) {
  const auto session = Open(ClientOf({kFirst, kSecond}));
  network_->Cut(kTest, kFirst);
  constexpr int kGraphs = 12;
  int number = 1;
  for (; number <= kGraphs; ++number) {
    const CompileReport report =
        ReportOf(session, absl::StrCat("fake.salt.", number));
    EXPECT_FALSE(report.by_local_worker) << report.daemon_status;
  }
  EXPECT_EQ(first_->Count("plans"), 0);
  EXPECT_EQ(second_->Count("plans"), kGraphs);

  network_->Heal();
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  for (; first_->Count("plans") == 0; ++number) {
    ASSERT_LT(SteadyNow(), patience);
    EXPECT_FALSE(
        ReportOf(session, absl::StrCat("fake.salt.", number)).by_local_worker);
  }
  EXPECT_EQ(first_->Count("plans") + second_->Count("plans"), number - 1);
}

TEST_F(PartitionTest, WithAThirdOfPacketsLostAllAreServedAndNothingIsWrong) {
  for (const int machine : {kFirst, kSecond}) {
    network_->Lose(kTest, machine, 30);
    network_->Lose(machine, kStore, 30);
  }
  const auto session = Open(ClientOf({kFirst, kSecond}));
  constexpr int kGraphs = 12;
  for (int number = 1; number <= kGraphs; ++number) {
    // By a daemon, or where none was heard in time by the client's own worker.
    const CompileReport report =
        ReportOf(session, absl::StrCat("fake.salt.", number));
    EXPECT_TRUE(!report.by_local_worker ||
                DaemonIsNotThere(report.daemon_status))
        << report.daemon_status;
    const CompileAnswer here = first_->client().Compile(Salted(number));
    const CompileAnswer there = second_->client().Compile(Salted(number));
    ASSERT_TRUE(here.status.ok()) << here.status;
    ASSERT_TRUE(there.status.ok()) << there.status;
    EXPECT_EQ(here.result.artifact().artifact(),
              there.result.artifact().artifact());
  }
  // On each side a key is compiled at most once; the session's are for another
  // target, and so other keys.
  EXPECT_LE(first_->Count("plans"), 2 * kGraphs);
  EXPECT_LE(second_->Count("plans"), 2 * kGraphs);
  EXPECT_GT(first_->Count("far.timeouts") + second_->Count("far.timeouts"), 0);
  EXPECT_EQ(first_->Count("far.refused") + second_->Count("far.refused"), 0);

  network_->Heal();
  ExpectTheyShareAgain(kGraphs + 1);
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  for (int number = 1000;; ++number) {
    ASSERT_LT(SteadyNow(), patience);
    if (!ReportOf(session, absl::StrCat("fake.salt.", number)).by_local_worker)
      break;
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::long_cut = absl::Seconds(std::atoi(argv[1]));
  return RUN_ALL_TESTS();
}

#include "server/admin_service.h"

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

// One call of the admin service that must go well.
template <typename Reply, typename Request, typename Method>
Reply Ask(TestDaemon& d, Method method, const Request& request) {
  grpc::ClientContext context;
  Reply reply;
  const grpc::Status status =
      ((*AdminStub(d.client())).*method)(&context, request, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return reply;
}

using Stub = wire::AdminService::Stub;

std::map<std::string, int64_t> StatsOf(TestDaemon& d) {
  const auto reply =
      Ask<wire::StatsReply>(d, &Stub::Stats, wire::StatsRequest());
  std::map<std::string, int64_t> stats;
  std::string last;
  for (const wire::Counter& counter : reply.counters()) {
    EXPECT_LT(last, counter.name());
    last = counter.name();
    stats[counter.name()] = counter.value();
  }
  return stats;
}

wire::ListReply ListOf(TestDaemon& d) {
  return Ask<wire::ListReply>(d, &Stub::List, wire::ListRequest());
}

TEST(AdminService, StatsCountWhatHappenedAndAreSorted) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.units.3"});
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  const std::map<std::string, int64_t> stats = StatsOf(d);
  EXPECT_EQ(stats.at("calls.compile"), 2);
  EXPECT_EQ(stats.at("cache.hits"), 1);
  EXPECT_EQ(stats.at("cache.misses"), 1);
  EXPECT_EQ(stats.at("jobs.done"), 1);
  EXPECT_EQ(stats.at("units.built"), 3);
  EXPECT_EQ(stats.at("plans"), 1);
}

TEST(AdminService, WorkersAndTheirCompilersAreListed) {
  TestDaemon d;
  const auto reply =
      Ask<wire::WorkersReply>(d, &Stub::Workers, wire::WorkersRequest());
  EXPECT_EQ(reply.workers_size(), 2);
  ASSERT_EQ(reply.toolchains_size(), 2);
  EXPECT_EQ(reply.toolchains(0).name(), "g++");
  EXPECT_EQ(reply.toolchains(0).version(), "0.0 (fake)");
  EXPECT_EQ(reply.toolchains(1).name(), "nvrtc");
  EXPECT_EQ(reply.toolchains(1).missing(), "the fake worker has none");
}

TEST(AdminService, AnEntryIsListedAndShownByItsPrefix) {
  TestDaemon d;
  const CompileAnswer made = d.client().Compile(FakeRequest({"fake.salt.a"}));
  ASSERT_TRUE(made.status.ok()) << made.status;
  const wire::ListReply list = ListOf(d);
  ASSERT_EQ(list.entries_size(), 1);
  EXPECT_EQ(list.entries(0).graph_name(), "fake");
  EXPECT_EQ(list.entries(0).target(), "cpu x86-64-v3");
  EXPECT_EQ(list.entries(0).kernels(), 1u);

  wire::ShowRequest show;
  show.set_key_prefix_hex(
      absl::BytesToHexString(made.result.compile_key()).substr(0, 6));
  const auto shown = Ask<wire::ShowReply>(d, &Stub::Show, show);
  EXPECT_EQ(shown.artifact().compile_key(), made.result.compile_key());
  EXPECT_EQ(shown.entry().graph_name(), "fake");

  show.set_key_prefix_hex("ffffffffffffffffffff");
  grpc::ClientContext context;
  wire::ShowReply none;
  EXPECT_EQ(AdminStub(d.client())->Show(&context, show, &none).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(AdminService, ExplainNamesTheFirstPartThatDiffers) {
  TestDaemon d;
  wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  wire::ExplainRequest explain;
  *explain.mutable_request() = request;
  EXPECT_FALSE(
      Ask<wire::ExplainReply>(d, &Stub::Explain, explain).has_nearest());
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  EXPECT_TRUE(Ask<wire::ExplainReply>(d, &Stub::Explain, explain).found());

  explain.mutable_request()
      ->mutable_options()
      ->mutable_artifact()
      ->set_no_fusion(true);
  const auto options = Ask<wire::ExplainReply>(d, &Stub::Explain, explain);
  EXPECT_FALSE(options.found());
  EXPECT_EQ(options.first_difference(), "options");

  *explain.mutable_request() = FakeRequest({"fake.salt.b"});
  const auto graph = Ask<wire::ExplainReply>(d, &Stub::Explain, explain);
  EXPECT_EQ(graph.first_difference(), "graph");
  EXPECT_TRUE(absl::StrContains(graph.detail(), "fake.salt.b"))
      << graph.detail();
}

TEST(AdminService, PurgeForgetsWhatItSaysAndADryRunNothing) {
  TestDaemon d;
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.a"})).status.ok());
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.b"})).status.ok());
  wire::PurgeRequest purge;
  purge.set_device("cuda");
  EXPECT_EQ(Ask<wire::PurgeReply>(d, &Stub::Purge, purge).entries(), 0u);
  purge.set_device("cpu");
  purge.set_dry_run(true);
  EXPECT_EQ(Ask<wire::PurgeReply>(d, &Stub::Purge, purge).victims_size(), 2);
  EXPECT_EQ(ListOf(d).entries_size(), 2);
  purge.set_dry_run(false);
  EXPECT_EQ(Ask<wire::PurgeReply>(d, &Stub::Purge, purge).entries(), 2u);
  EXPECT_EQ(ListOf(d).entries_size(), 0);
}

TEST(AdminService, AListComesInPages) {
  TestDaemon d;
  std::set<std::string> seen;
  for (const char* salt : {"fake.salt.a", "fake.salt.b", "fake.salt.c"})
    ASSERT_TRUE(d.client().Compile(FakeRequest({salt})).status.ok());
  wire::ListRequest request;
  request.set_limit(2);
  const auto first = Ask<wire::ListReply>(d, &Stub::List, request);
  ASSERT_EQ(first.entries_size(), 2);
  request.set_after(first.next());
  const auto second = Ask<wire::ListReply>(d, &Stub::List, request);
  ASSERT_EQ(second.entries_size(), 1);
  EXPECT_EQ(second.next(), "");
  for (const auto& page : {first, second})
    for (const wire::Entry& entry : page.entries())
      seen.insert(entry.entry_id());
  EXPECT_EQ(seen.size(), 3u);

  request.set_after("no key");
  grpc::ClientContext context;
  wire::ListReply reply;
  const grpc::Status status =
      AdminStub(d.client())->List(&context, request, &reply);
  EXPECT_EQ(ReasonOf(FromGrpc(context, status)), ErrorReason::kBadOption);
}

TEST(AdminService, JobsComeInPagesInOrderOfTheirBeginning) {
  constexpr int kJobs = 5;
  TestDaemon d;
  std::vector<std::thread> callers;
  for (int i = 0; i < kJobs; ++i) {
    callers.emplace_back([&d, i] {
      const CompileAnswer answer = d.client().Compile(
          FakeRequest({"fake.gate.a", absl::StrCat("fake.salt.", i)}));
      EXPECT_TRUE(answer.status.ok()) << answer.status;
    });
  }
  wire::JobsReply all;
  while (all.jobs_size() < kJobs)
    all = Ask<wire::JobsReply>(d, &Stub::Jobs, wire::JobsRequest());
  EXPECT_EQ(all.next(), "");
  std::vector<std::string> ids;
  wire::JobsRequest request;
  request.set_limit(2);
  for (const int due : {2, 2, 1}) {
    const auto page = Ask<wire::JobsReply>(d, &Stub::Jobs, request);
    EXPECT_EQ(page.jobs_size(), due);
    for (const wire::Job& job : page.jobs()) ids.push_back(job.id());
    EXPECT_EQ(page.next(), due == 2 ? ids.back() : "");
    request.set_after(page.next());
  }
  EXPECT_EQ(ids, std::vector<std::string>(
                     {"j-0001", "j-0002", "j-0003", "j-0004", "j-0005"}));
  request.set_after("no job");
  grpc::ClientContext context;
  wire::JobsReply reply;
  const grpc::Status refused =
      AdminStub(d.client())->Jobs(&context, request, &reply);
  EXPECT_EQ(ReasonOf(FromGrpc(context, refused)), ErrorReason::kBadOption);
  d.OpenGate("a");
  for (std::thread& caller : callers) caller.join();
}

TEST(AdminService, APurgeOfAllTakesTheUnitsToo) {
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.units.3"});
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  wire::PurgeRequest purge;
  purge.set_device("cpu");
  const uint64_t entry = Ask<wire::PurgeReply>(d, &Stub::Purge, purge).bytes();
  EXPECT_EQ(StatsOf(d).at("cache.units.objects"), 3);
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 3);  // they were still there
  purge.Clear();
  purge.set_all(true);
  purge.set_dry_run(true);
  const uint64_t all = Ask<wire::PurgeReply>(d, &Stub::Purge, purge).bytes();
  EXPECT_GT(all, entry);
  EXPECT_EQ(StatsOf(d).at("cache.units.objects"), 3);
  purge.set_dry_run(false);
  EXPECT_EQ(Ask<wire::PurgeReply>(d, &Stub::Purge, purge).bytes(), all);
  EXPECT_EQ(StatsOf(d).at("cache.units.objects"), 0);
  ASSERT_TRUE(d.client().Compile(request).status.ok());
  EXPECT_EQ(d.count(Count::kUnitsBuilt), 6);
}

TEST(AdminService, APurgeOfNothingInParticularIsRefused) {
  TestDaemon d;
  grpc::ClientContext context;
  wire::PurgeReply reply;
  const grpc::Status status =
      AdminStub(d.client())->Purge(&context, {}, &reply);
  EXPECT_EQ(ReasonOf(FromGrpc(context, status)), ErrorReason::kBadOption);
  ExpectWellAndEmpty(d);
}

TEST(AdminService, APurgeOfADeviceThatIsNoneIsRefused) {
  TestDaemon d;
  ASSERT_TRUE(d.client().Compile(FakeRequest({"fake.salt.a"})).status.ok());
  for (const char* device : {"foo", "sm_12", "cpu x86-64-v3"}) {
    wire::PurgeRequest purge;
    purge.set_device(device);
    grpc::ClientContext context;
    wire::PurgeReply reply;
    const grpc::Status status =
        AdminStub(d.client())->Purge(&context, purge, &reply);
    EXPECT_EQ(ReasonOf(FromGrpc(context, status)), ErrorReason::kBadOption);
    EXPECT_TRUE(absl::StrContains(status.error_message(), device));
  }
  EXPECT_EQ(ListOf(d).entries_size(), 1);
}

absl::Status Tune(TestDaemon& d, const wire::CompileRequest& compile) {
  wire::TuneRequest tune;
  *tune.mutable_compile() = compile;
  grpc::ClientContext context;
  wire::TuneReply reply;
  const grpc::Status status =
      AdminStub(d.client())->Tune(&context, tune, &reply);
  return FromGrpc(context, status);
}

TEST(AdminService, ATuningThatCannotBeIsRefused) {
  TestDaemon d;
  wire::CompileRequest nowhere = FakeRequest({"fake.row.key"});
  nowhere.clear_target();
  EXPECT_EQ(ReasonOf(Tune(d, nowhere)), ErrorReason::kBadTarget);
  EXPECT_EQ(ReasonOf(Tune(d, FakeRequest({"fake.error.UNSUPPORTED_OP"}))),
            ErrorReason::kUnsupportedOp);
  const absl::Status no_device =
      Tune(d, FakeRequest({"fake.row.key", "fake.measure_error.NO_DEVICE"}));
  EXPECT_EQ(ReasonOf(no_device), ErrorReason::kNoDevice);
  EXPECT_EQ(
      ReasonOf(Tune(d, FakeRequest({"fake.row.key", "fake.measure_die.any"}))),
      ErrorReason::kWorkerDied);
  EXPECT_EQ(d.count(Count::kTuned), 0);
  ExpectWellAndEmpty(d);
}

TEST(AdminService, AGraphWithoutChoicesIsTunedAtOnce) {
  TestDaemon d;
  EXPECT_EQ(Tune(d, FakeRequest({"fake.salt.none"})), absl::OkStatus());
  EXPECT_EQ(d.count(Count::kTuned), 0);
}

// Each subject of the audit log, in order.
std::vector<std::string> SubjectsOf(const TestDaemon& d) {
  std::ifstream in(absl::StrCat(d.config().data_folder, "/audit.log"));
  std::vector<std::string> subjects;
  for (std::string line; std::getline(in, line);) {
    const std::string word = "\"subject\":\"";
    const size_t begin = line.find(word) + word.size();
    subjects.push_back(line.substr(begin, line.find('"', begin) - begin));
  }
  return subjects;
}

TEST(AdminService, TheAuditLogHasActsInTheWordsOfPeople) {
  TestDaemon d;
  wire::PurgeRequest purge;
  purge.set_key_prefix_hex("9c41d2");
  purge.set_older_than_ms(7 * 24 * 3600 * 1000);
  purge.set_device("sm_90");
  purge.set_cache_namespace("team-a");
  Ask<wire::PurgeReply>(d, &Stub::Purge, purge);
  wire::PurgeRequest all;
  all.set_all(true);
  Ask<wire::PurgeReply>(d, &Stub::Purge, all);
  wire::QuarantineRequest quarantine;
  quarantine.set_clear_prefix_hex("ffff");
  Ask<wire::QuarantineReply>(d, &Stub::ListQuarantine, quarantine);
  wire::AddTokenRequest token;
  token.set_name("ci");
  token.set_role("submitter");
  token.add_namespaces("team-a");
  token.add_namespaces("team-b");
  token.set_life_ms(3600 * 1000);
  Ask<wire::AddTokenReply>(d, &Stub::AddToken, token);
  wire::MaintainRequest verify;
  verify.set_task(wire::MaintainRequest::TASK_VERIFY);
  Ask<wire::MaintainReply>(d, &Stub::Maintain, verify);
  wire::PinRequest pin;
  pin.set_key_prefix_hex("9c41d2");
  grpc::ClientContext context;
  wire::PinReply reply;
  EXPECT_FALSE(AdminStub(d.client())->Pin(&context, pin, &reply).ok());
  EXPECT_EQ(
      SubjectsOf(d),
      std::vector<std::string>(
          {"key 9c41d2 older than 168h on sm_90 in team-a", "all", "key ffff",
           "ci: submitter in team-a, team-b for 1h", "verify", "key 9c41d2"}));
}

// Whatever comes of it. Its line of the audit log is what counts.
template <typename Reply, typename Request, typename Method>
void Try(TestDaemon& d, Method method, const Request& request) {
  grpc::ClientContext context;
  Reply reply;
  ((*AdminStub(d.client())).*method)(&context, request, &reply).ok();
}

TEST(AdminService, TheAuditLogHasNoTokenThatWasPastedInAWrongPlace) {
  TestDaemon d;
  wire::AddTokenRequest add;
  add.set_name("ci");
  add.set_role("reader");
  add.add_namespaces("*");
  add.set_life_ms(3600 * 1000);
  const std::string token =
      Ask<wire::AddTokenReply>(d, &Stub::AddToken, add).token();
  wire::RevokeKeyRequest key;
  key.set_key_hex(token);
  Try<wire::RevokeKeyReply>(d, &Stub::RevokeKey, key);
  wire::PinRequest pin;
  pin.set_key_prefix_hex(token);
  Try<wire::PinReply>(d, &Stub::Pin, pin);
  wire::QuarantineRequest quarantine;
  quarantine.set_clear_prefix_hex(token);
  Try<wire::QuarantineReply>(d, &Stub::ListQuarantine, quarantine);
  wire::PurgeRequest purge;
  purge.set_key_prefix_hex(token);
  purge.set_device(token);
  Try<wire::PurgeReply>(d, &Stub::Purge, purge);
  wire::AddTokenRequest again;
  again.set_name(token);
  again.set_role(token);
  again.add_namespaces(token);
  Try<wire::AddTokenReply>(d, &Stub::AddToken, again);
  wire::RevokeTokenRequest revoke;
  revoke.set_name(token);
  Try<wire::RevokeTokenReply>(d, &Stub::RevokeToken, revoke);
  EXPECT_EQ(SubjectsOf(d),
            std::vector<std::string>({"ci: reader in * for 1h", "ci", "key ci",
                                      "key ci", "key ci on ci",
                                      "ci: ci in ci for 0", "ci"}));
}

TEST(AdminService, DrainEndsTheDaemon) {
  TestDaemon d;
  Ask<wire::DrainReply>(d, &Stub::Drain, wire::DrainRequest());
  d.daemon().WaitForDrainRequest();
  EXPECT_TRUE(d.daemon().Drain());
}

}  // namespace
}  // namespace kiln

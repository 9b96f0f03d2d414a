// Who may do what at a daemon's doors: plain TCP, TLS with tokens and
// certificates, and the Unix socket. A real daemon, real connections.

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/raw_call.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

// One end of a channel to a daemon's network door.
class Outside {
 public:
  Outside(int port, DaemonTls tls) {
    DaemonAddress address;
    address.tcp = absl::StrCat("localhost:", port);
    address.tls = std::move(tls);
    // The daemon's own word is not asked for here.
    address.public_keys.push_back(SigningKey::Generate()->public_key());
    auto channel = OpenDaemonChannel(address);
    EXPECT_TRUE(channel.ok()) << channel.status();
    if (channel.ok()) channel_ = *std::move(channel);
  }

  absl::Status Lookup(const std::string& cache_namespace) {
    wire::CompileRequest request = FakeRequest({"fake.salt.a"});
    request.set_cache_namespace(cache_namespace);
    wire::LookupReply reply;
    return Call<wire::CompileService>(&wire::CompileService::Stub::Lookup,
                                      LookupFor(request), reply);
  }

  absl::Status Compile(const std::string& cache_namespace) {
    wire::CompileRequest request = FakeRequest({"fake.salt.a"});
    request.set_cache_namespace(cache_namespace);
    grpc::ClientContext context;
    const auto stub = wire::CompileService::NewStub(channel_);
    const auto stream = stub->Compile(&context, request);
    wire::CompileEvent event;
    while (stream->Read(&event)) {
    }
    return StatusOfCall(stream->Finish(), context, "compile");
  }

  absl::Status Describe(const std::string& shown = "") {
    wire::DescribeReply reply;
    return Call<wire::CompileService>(&wire::CompileService::Stub::Describe,
                                      wire::DescribeRequest(), reply, shown);
  }

  absl::Status Purge(const std::string& cache_namespace) {
    wire::PurgeRequest request;
    request.set_all(true);
    request.set_cache_namespace(cache_namespace);
    wire::PurgeReply reply;
    return Call<wire::AdminService>(&wire::AdminService::Stub::Purge, request,
                                    reply);
  }

  absl::StatusOr<wire::ListReply> List(const std::string& cache_namespace) {
    wire::ListRequest request;
    request.set_cache_namespace(cache_namespace);
    wire::ListReply reply;
    RETURN_IF_ERROR(Call<wire::AdminService>(&wire::AdminService::Stub::List,
                                             request, reply));
    return reply;
  }

  grpc::Status Probe() {
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(20)));
    std::string reply;
    return CallRaw(channel_, context, "/grpc.health.v1.Health/Check", "",
                   reply);
  }

  absl::Status Drain() {
    wire::DrainReply reply;
    return Call<wire::AdminService>(&wire::AdminService::Stub::Drain,
                                    wire::DrainRequest(), reply);
  }

 private:
  template <typename Service, typename Method, typename Request, typename Reply>
  absl::Status Call(Method method, const Request& request, Reply& reply,
                    const std::string& shown = "") {
    const auto stub = Service::NewStub(channel_);
    grpc::ClientContext context;
    if (!shown.empty()) context.AddMetadata("authorization", shown);
    SetDeadline(context, SteadyIn(absl::Seconds(20)));
    return StatusOfCall(((*stub).*method)(&context, request, &reply), context,
                        "call");
  }

  std::shared_ptr<grpc::Channel> channel_;
};

std::optional<ErrorReason> Why(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  return ReasonOf(status);
}

void WriteSecret(const std::string& path, const std::string& secret) {
  std::ofstream(path) << secret << "\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
}

// Says the beginning of a ClientHello, and goes.
void BreakOffAHandshake(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  const std::string hello("\x16\x03\x01\x00\x80\x01\x00\x00\x7c\x03\x03", 11);
  EXPECT_EQ(send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), 11);
  close(fd);
}

TEST(PlainTcp, CompilesAndNeitherPurgesNorDrains) {
  TestDaemon daemon([](Config& config) {
    config.tcp = "127.0.0.1:0";
    config.tcp_plain = true;
  });
  Outside outside(daemon.daemon().tcp_port(), {});
  EXPECT_TRUE(outside.Compile("").ok());
  EXPECT_TRUE(outside.Lookup("").ok());
  EXPECT_TRUE(absl::IsUnimplemented(outside.Purge("")));
  EXPECT_TRUE(absl::IsUnimplemented(outside.Drain()));
  EXPECT_TRUE(absl::IsUnimplemented(outside.List("").status()));
  EXPECT_EQ(Why(outside.Compile("team-a")), ErrorReason::kPermission);
  EXPECT_EQ(Why(outside.Lookup("team-a")), ErrorReason::kPermission);
  // What it compiled is still there, and the daemon still serves.
  wire::ListReply list;
  grpc::ClientContext context;
  ASSERT_TRUE(AdminStub(daemon.client())->List(&context, {}, &list).ok());
  EXPECT_EQ(list.entries_size(), 1);
}

TEST(PlainTcp, IsNotCalledBeyondThisMachine) {
  DaemonAddress address;
  address.tcp = "example.org:7117";
  address.public_keys.push_back(SigningKey::Generate()->public_key());
  const absl::Status refused = OpenDaemonChannel(address).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kBadOption);
  EXPECT_TRUE(absl::StrContains(refused.message(), "set the TLS CA file"));
  // A secret is not sent in plain, wherever it goes.
  address.tcp = "localhost:7117";
  address.tls.token_file = "/token";
  EXPECT_EQ(ReasonOf(OpenDaemonChannel(address).status()),
            ErrorReason::kBadOption);
}

class OverTls : public testing::Test {
 protected:
  OverTls()
      : ca_(folder_.path(), "ca"),
        server_(ca_.Issue("kilnd.example", "kilnd")),
        daemon_([this](Config& config) {
          OpenTlsDoor(config, server_, ca_);
          config.access = {
              {"cert:trainer.example", {Role::kSubmitter, {"team-a"}}},
              {"cert:reader.example", {Role::kReader, {"*"}}},
              {"cert:boss.example", {Role::kAdmin, {"team-a"}}},
              {"cert:operator.example", {Role::kAdmin, {"*"}}}};
        }) {}

  Outside With(DaemonTls tls) {
    return Outside(daemon_.daemon().tcp_port(), std::move(tls));
  }
  Outside WithToken(const std::string& token) {
    const std::string path = absl::StrCat(folder_.path(), "/token-", ++files_);
    WriteSecret(path, token);
    return With({.ca = ca_.file(), .token_file = path});
  }
  Outside WithCertificate(const std::string& name) {
    const TestCa::Files own = ca_.Issue(name, name);
    return With(
        {.ca = ca_.file(), .certificate = own.certificate, .key = own.key});
  }
  // Asked for over the socket, as compilectl does.
  std::string MakeToken(const std::string& name, const std::string& role,
                        const std::string& cache_namespace) {
    wire::AddTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    request.add_namespaces(cache_namespace);
    request.set_life_ms(3600 * 1000);
    wire::AddTokenReply reply;
    grpc::ClientContext context;
    const grpc::Status made =
        AdminStub(daemon_.client())->AddToken(&context, request, &reply);
    EXPECT_TRUE(made.ok()) << made.error_message();
    return reply.token();
  }

  const ShortFolder folder_;
  TestCa ca_;
  const TestCa::Files server_;
  TestDaemon daemon_;
  int files_ = 0;
};

TEST_F(OverTls, WhoShowsNothingIsRefused) {
  Outside nobody = With({.ca = ca_.file()});
  EXPECT_EQ(Why(nobody.Lookup("")), ErrorReason::kUnauthenticated);
  EXPECT_EQ(Why(nobody.Compile("")), ErrorReason::kUnauthenticated);
  EXPECT_EQ(Why(nobody.Describe()), ErrorReason::kUnauthenticated);
  EXPECT_EQ(Why(nobody.Purge("")), ErrorReason::kUnauthenticated);
  EXPECT_EQ(daemon_.count(Count::kCallersRefused), 4);
  EXPECT_TRUE(absl::StrContains(AuditOf(daemon_), "\"UNAUTHENTICATED\""));
}

TEST_F(OverTls, ATokenOpensItsNamespaceAndNoOther) {
  const std::string token = MakeToken("ci", "submitter", "team-a");
  Outside ci = WithToken(token);
  EXPECT_TRUE(ci.Describe().ok());
  EXPECT_TRUE(ci.Compile("team-a").ok());
  EXPECT_TRUE(ci.Lookup("team-a").ok());
  Outside bare = With({.ca = ca_.file()});
  EXPECT_TRUE(bare.Describe("bearer " + token).ok());
  EXPECT_EQ(Why(bare.Describe("basic a")), ErrorReason::kUnauthenticated);
  EXPECT_EQ(Why(ci.Compile("team-b")), ErrorReason::kPermission);
  EXPECT_EQ(Why(ci.Lookup("")), ErrorReason::kPermission);
  EXPECT_EQ(Why(ci.Purge("team-a")), ErrorReason::kPermission);
  EXPECT_EQ(Why(ci.Drain()), ErrorReason::kPermission);
  const std::string audit = AuditOf(daemon_);
  EXPECT_TRUE(absl::StrContains(
      audit,
      "\"who\":\"token:ci\",\"what\":\"drain\",\"subject\":\"*\","
      "\"outcome\":\"PERMISSION\""))
      << audit;
  EXPECT_FALSE(absl::StrContains(audit, token.substr(token.find('.') + 1)));
}

TEST_F(OverTls, ARevokedTokenIsRefusedAtOnce) {
  const std::string token = MakeToken("ci", "reader", "*");
  Outside ci = WithToken(token);
  EXPECT_TRUE(ci.Lookup("team-a").ok());
  wire::RevokeTokenRequest request;
  request.set_name(token);  // pasted whole: no log has its secret
  wire::RevokeTokenReply reply;
  grpc::ClientContext context;
  ASSERT_TRUE(
      AdminStub(daemon_.client())->RevokeToken(&context, request, &reply).ok());
  EXPECT_EQ(Why(ci.Lookup("team-a")), ErrorReason::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(
      AuditOf(daemon_), "\"what\":\"revoke token\",\"subject\":\"ci\""));
}

TEST_F(OverTls, ATokenOfAnotherDaemonOpensNothing) {
  EXPECT_EQ(Why(WithToken("ci.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
                    .Lookup("")),
            ErrorReason::kUnauthenticated);
}

TEST_F(OverTls, ATokenFileThatIsReplacedHoldsForTheNextCall) {
  const std::string path = absl::StrCat(folder_.path(), "/token");
  WriteSecret(path, MakeToken("first", "reader", "*"));
  Outside outside = With({.ca = ca_.file(), .token_file = path});
  EXPECT_TRUE(outside.Lookup("team-a").ok());
  const std::string fresh = absl::StrCat(path, ".new");
  WriteSecret(fresh, MakeToken("second", "reader", "team-b"));
  ASSERT_EQ(rename(fresh.c_str(), path.c_str()), 0);
  EXPECT_EQ(Why(outside.Lookup("team-a")), ErrorReason::kPermission);
  EXPECT_TRUE(outside.Lookup("team-b").ok());
}

TEST_F(OverTls, ACertificateHasTheRolesOfItsName) {
  Outside trainer = WithCertificate("trainer.example");
  EXPECT_TRUE(trainer.Compile("team-a").ok());
  EXPECT_EQ(Why(trainer.Compile("team-b")), ErrorReason::kPermission);
  Outside reader = WithCertificate("reader.example");
  EXPECT_TRUE(reader.Lookup("team-b").ok());
  EXPECT_EQ(Why(reader.Compile("team-b")), ErrorReason::kPermission);
  Outside stranger = WithCertificate("stranger.example");
  EXPECT_EQ(Why(stranger.Lookup("team-a")), ErrorReason::kPermission);
}

TEST_F(OverTls, AdminOfANamespaceSeesAndPurgesThatOne) {
  ASSERT_TRUE(WithCertificate("trainer.example").Compile("team-a").ok());
  wire::CompileRequest other = FakeRequest({"fake.salt.b"});
  other.set_cache_namespace("team-b");
  ASSERT_TRUE(daemon_.client().Compile(other).status.ok());
  Outside boss = WithCertificate("boss.example");
  EXPECT_EQ(boss.List("team-a")->entries_size(), 1);
  EXPECT_EQ(Why(boss.List("").status()), ErrorReason::kPermission);
  EXPECT_EQ(Why(boss.List("team-b").status()), ErrorReason::kPermission);
  EXPECT_EQ(Why(boss.Purge("")), ErrorReason::kPermission);
  EXPECT_TRUE(boss.Purge("team-a").ok());
  EXPECT_EQ(Why(boss.Drain()), ErrorReason::kPermission);
  Outside all = WithCertificate("operator.example");
  const auto left = all.List("");
  ASSERT_TRUE(left.ok()) << left.status();
  ASSERT_EQ(left->entries_size(), 1);
  EXPECT_EQ(left->entries(0).cache_namespace(), "team-b");
  EXPECT_TRUE(all.Drain().ok());
}

TEST_F(OverTls, AForeignOrExpiredCertificateIsRefusedAndAudited) {
  TestCa foreign(folder_.path(), "foreign");
  const TestCa::Files forged = foreign.Issue("operator.example", "forged");
  const TestCa::Files old =
      ca_.Issue("operator.example", "old", -absl::Hours(1));
  const std::string path = absl::StrCat(folder_.path(), "/good-token");
  WriteSecret(path, MakeToken("good", "reader", "*"));
  for (const TestCa::Files& bad : {forged, old}) {
    Outside caller = With(
        {.ca = ca_.file(), .certificate = bad.certificate, .key = bad.key});
    EXPECT_EQ(Why(caller.Describe()), ErrorReason::kUnauthenticated);
    EXPECT_EQ(Why(caller.Purge("")), ErrorReason::kUnauthenticated);
    // A good token does not make up for it.
    Outside both = With({.ca = ca_.file(),
                         .certificate = bad.certificate,
                         .key = bad.key,
                         .token_file = path});
    EXPECT_EQ(Why(both.Lookup("")), ErrorReason::kUnauthenticated);
  }
  EXPECT_EQ(daemon_.count(Count::kCallersRefused), 6);
  const std::string audit = AuditOf(daemon_);
  for (const char* why :
       {"unable to get local issuer certificate", "certificate has expired"}) {
    EXPECT_TRUE(absl::StrContains(audit, why)) << audit;
  }
  EXPECT_TRUE(absl::StrContains(
      audit,
      "\"who\":\"ipv4:127.0.0.1\",\"what\":\"call\",\"subject\":"
      "\"certificate CN = operator.example, number "))
      << audit;
}

// gRPC tells nobody of a handshake that breaks off: it is noticed a while later.
TEST_F(OverTls, AHandshakeThatBreaksOffIsAuditedAndNoProbeOrCallIs) {
  ASSERT_TRUE(WithToken(MakeToken("ci", "reader", "*")).Lookup("").ok());
  ASSERT_TRUE(With({.ca = ca_.file()}).Probe().ok());
  BreakOffAHandshake(daemon_.daemon().tcp_port());
  while (daemon_.count(Count::kPeersRefused) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(daemon_.count(Count::kPeersRefused), 1);
  EXPECT_TRUE(absl::StrContains(
      AuditOf(daemon_),
      "\"who\":\"ipv4:127.0.0.1\",\"what\":\"connect\",\"subject\":"
      "\"its handshake broke off, or it made no call\","
      "\"outcome\":\"UNAUTHENTICATED\""))
      << AuditOf(daemon_);
}

TEST_F(OverTls, ACallerThatDoesNotBelieveTheDaemonIsAudited) {
  TestCa foreign(folder_.path(), "foreign");
  EXPECT_FALSE(With({.ca = foreign.file()}).Describe().ok());
  while (daemon_.count(Count::kPeersRefused) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(absl::StrContains(AuditOf(daemon_), "handshake broke off"));
}

TEST_F(OverTls, ARevokedCertificateIsRefusedAndAudited) {
  const TestCa::Files own = ca_.Issue("reader.example", "lost");
  Outside reader =
      With({.ca = ca_.file(), .certificate = own.certificate, .key = own.key});
  ASSERT_TRUE(reader.Lookup("").ok());
  ca_.Revoke(own);
  // Over the connection that was good, once the file is read.
  absl::Status status;
  for (int i = 0; i < 300 && status.ok(); ++i) {
    status = reader.Lookup("");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(Why(status), ErrorReason::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(AuditOf(daemon_), "certificate revoked"));
  EXPECT_TRUE(WithCertificate("reader.example").Lookup("").ok());
}

TEST_F(OverTls, APlainCallerIsRefusedAndAudited) {
  const absl::Status refused = With({}).Describe();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(
      AuditOf(daemon_),
      "\"who\":\"ipv4:127.0.0.1\",\"what\":\"connect\",\"subject\":"
      "\"speaks no TLS\",\"outcome\":\"UNAUTHENTICATED\""));
}

TEST_F(OverTls, ACertificateIsReplacedWhileCallsGoOn) {
  const std::string token = MakeToken("ci", "reader", "*");
  Outside steady = WithToken(token);
  ASSERT_TRUE(steady.Lookup("a").ok());
  // The same files, signed by another CA: whoever knows that one alone gets in
  // once they are read.
  TestCa next(folder_.path(), "next");
  next.Issue("kilnd.example", "kilnd");
  const std::string path = absl::StrCat(folder_.path(), "/next-token");
  WriteSecret(path, token);
  bool replaced = false;
  for (int i = 0; i < 300 && !replaced; ++i) {
    EXPECT_TRUE(steady.Lookup("a").ok());
    replaced = With({.ca = next.file(), .token_file = path}).Lookup("a").ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(replaced);
  EXPECT_TRUE(steady.Lookup("a").ok());
}

TEST(Tls, FilesThatAreNoneStopTheDaemon) {
  const ShortFolder folder;
  TestCa ca(folder.path(), "ca");
  const TestCa::Files own = ca.Issue("kilnd.example", "kilnd");
  const TestCa::Files other = ca.Issue("other.example", "other");
  Config config = TestConfig(folder.path());
  config.tcp = "127.0.0.1:0";
  const auto start = [&](const std::string& certificate,
                         const std::string& key) {
    config.tls_certificate = certificate;
    config.tls_key = key;
    return Daemon::Start(config, geteuid()).status();
  };
  EXPECT_TRUE(absl::StrContains(start("/nowhere.crt", own.key).message(),
                                "/nowhere.crt: can't be read"));
  EXPECT_TRUE(absl::StrContains(start(own.certificate, other.key).message(),
                                "not the key of"));
  EXPECT_TRUE(absl::StrContains(start(own.key, own.key).message(),
                                "no certificate in PEM"));
}

TEST(Socket, TheOperatorIsHeardWhileAllCallsWait) {
  constexpr int kCalls = 4;
  TestDaemon daemon([](Config& config) { config.max_waiting_calls = kCalls; });
  std::vector<std::thread> waiting;
  for (int i = 0; i < kCalls; ++i) {
    waiting.emplace_back([&daemon] {
      absl::Status status;
      do {  // the calls below may have its place
        status = daemon.client().Compile(FakeRequest({"fake.gate.go"})).status;
      } while (ReasonOf(status) == ErrorReason::kQueueFull);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  // One more is refused once all wait.
  while (ReasonOf(
             daemon.client()
                 .Compile(FakeRequest({"fake.gate.go"}), absl::Milliseconds(50))
                 .status) != ErrorReason::kQueueFull) {
  }
  wire::ListReply list;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  EXPECT_TRUE(AdminStub(daemon.client())->List(&context, {}, &list).ok());
  daemon.OpenGate("go");
  for (std::thread& thread : waiting) thread.join();
}

TEST(Socket, AnotherUserHasWhatARuleGrants) {
  const ShortFolder folder;
  Config config = TestConfig(folder.path());
  config.access = {
      {absl::StrCat("uid:", geteuid()), {Role::kSubmitter, {"team-a"}}}};
  // The owner is somebody else.
  const auto daemon = Daemon::Start(config, geteuid() + 1);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  TestClient client(config.socket);
  wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  EXPECT_EQ(ReasonOf(client.Compile(request).status), ErrorReason::kPermission);
  request.set_cache_namespace("team-a");
  EXPECT_TRUE(client.Compile(request).status.ok());
  wire::DrainReply reply;
  grpc::ClientContext context;
  EXPECT_EQ(AdminStub(client)->Drain(&context, {}, &reply).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace kiln

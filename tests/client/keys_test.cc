// Signing keys that are rotated and revoked while daemons and clients run: what
// loads, and what is refused from then on.

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/compile_client.h"
#include "client/load_bundle.h"
#include "client/session.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using wire::CompileResult;

// The public key, in hexadecimal digits.
std::string Rotate(TestDaemon& d, const std::string& cache_namespace = "") {
  wire::RotateKeyRequest request;
  request.set_cache_namespace(cache_namespace);
  wire::RotateKeyReply reply;
  grpc::ClientContext context;
  const grpc::Status made =
      AdminStub(d.client())->RotateKey(&context, request, &reply);
  EXPECT_TRUE(made.ok()) << made.error_message();
  return absl::BytesToHexString(reply.public_key());
}

absl::Status Revoke(TestDaemon& d, const std::string& key_hex) {
  wire::RevokeKeyRequest request;
  request.set_key_hex(key_hex);
  wire::RevokeKeyReply reply;
  grpc::ClientContext context;
  return FromGrpc(context,
                  AdminStub(d.client())->RevokeKey(&context, request, &reply));
}

std::vector<wire::ListedKey> KeysOf(TestDaemon& d) {
  wire::ListKeysReply reply;
  grpc::ClientContext context;
  EXPECT_TRUE(AdminStub(d.client())->ListKeys(&context, {}, &reply).ok());
  return {reply.keys().begin(), reply.keys().end()};
}

// The key that signs where a namespace has no other.
std::string OwnKey(TestDaemon& d) {
  return absl::BytesToHexString(KeysOf(d).front().key().public_key());
}

void Scrub(TestDaemon& d) {
  wire::MaintainRequest request;
  request.set_task(wire::MaintainRequest::TASK_SCRUB);
  wire::MaintainReply reply;
  do {
    grpc::ClientContext context;
    const grpc::Status asked =
        AdminStub(d.client())->Maintain(&context, request, &reply);
    ASSERT_TRUE(asked.ok()) << asked.error_message();
    request.clear_task();  // the same one, as it goes on
  } while (reply.running());
  EXPECT_EQ(reply.error(), "");
}

wire::CompileRequest RequestIn(const std::string& cache_namespace,
                               const std::string& order) {
  wire::CompileRequest request = FakeRequest({order});
  request.set_cache_namespace(cache_namespace);
  return request;
}

// Compiles, and gives the id of the key that signed.
std::string SignerOf(TestDaemon& d, const wire::CompileRequest& request) {
  const CompileAnswer answer = d.client().Compile(request);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  wire::ArtifactEnvelope envelope;
  EXPECT_TRUE(envelope.ParseFromString(answer.result.artifact().envelope()));
  return absl::BytesToHexString(envelope.signer());
}

std::string IdOf(const std::string& public_key_hex) {
  return absl::BytesToHexString(
      PublicKey::FromBytes(absl::HexStringToBytes(public_key_hex))->key_id());
}

bool IsHit(TestDaemon& d, const wire::CompileRequest& request) {
  const auto found = d.client().Lookup(LookupFor(request));
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() && found->outcome() == wire::LookupReply::OUTCOME_HIT;
}

std::shared_ptr<Session> SessionAt(
    const TestDaemon& d, const std::string& cache_namespace = "",
    std::shared_ptr<ArtifactShelf> shelf = nullptr) {
  SessionOptions options;
  options.daemon.socket = d.config().socket;
  options.daemon.answer_timeout = absl::Seconds(60);
  options.device.kind = DeviceKind::kNull;
  options.cache_namespace = cache_namespace;
  options.shelf = std::move(shelf);
  auto session = Session::Open(options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

// What the session asks for: of its own target.
wire::CompileRequest RequestOf(const Session& session,
                               const std::string& order) {
  return *session.RequestFor(FakeRequest({order}).graph(), {});
}

absl::Status LoadWith(Session& session, const std::string& order) {
  return session.Compile(FakeRequest({order}).graph()).status();
}

TEST(Keys, AfterARotationNewArtifactsHaveTheNewSignerAndOldOnesLoad) {
  TestDaemon d;
  const std::string before = OwnKey(d);
  const auto session = SessionAt(d);
  ASSERT_TRUE(LoadWith(*session, "fake.salt.a").ok());
  const std::string after = Rotate(d);
  EXPECT_NE(after, before);
  EXPECT_EQ(SignerOf(d, RequestOf(*session, "fake.salt.b")), IdOf(after));
  EXPECT_EQ(SignerOf(d, RequestOf(*session, "fake.salt.a")), IdOf(before));
  // The session was there before the key: it asks for keys when it meets one that
  // it does not know.
  EXPECT_TRUE(LoadWith(*session, "fake.salt.c").ok());
  d.Restart();
  EXPECT_EQ(OwnKey(d), after);
  const auto later = SessionAt(d);
  EXPECT_TRUE(LoadWith(*later, "fake.salt.a").ok());
  EXPECT_TRUE(LoadWith(*later, "fake.salt.b").ok());
  EXPECT_EQ(d.count(Count::kPlans), 0);
}

TEST(Keys, WhatARevokedKeySignedIsRefusedAtOnceNear) {
  TestDaemon d;
  const auto session = SessionAt(d);
  const std::string before = OwnKey(d);
  const auto request = RequestOf(*session, "fake.salt.a");
  ASSERT_TRUE(LoadWith(*session, "fake.salt.a").ok());
  ASSERT_TRUE(IsHit(d, request));  // it lies in memory now
  ASSERT_TRUE(Revoke(d, before).ok());
  EXPECT_FALSE(IsHit(d, request));
  EXPECT_GE(d.count(Count::kCacheBroken), 1);
  // A new key has its place, and all is made again, by the same session too.
  EXPECT_EQ(SignerOf(d, request), IdOf(OwnKey(d)));
  EXPECT_TRUE(LoadWith(*session, "fake.salt.a").ok());
  EXPECT_TRUE(IsHit(d, request));
  d.Restart();
  EXPECT_NE(OwnKey(d), before);
  EXPECT_EQ(KeysOf(d).back().key().key_id(),
            absl::HexStringToBytes(IdOf(before)));
  EXPECT_GT(KeysOf(d).back().key().revoked_unix_ms(), 0);
  EXPECT_TRUE(IsHit(d, request));
}

TEST(Keys, ANamespaceHasItsOwn) {
  TestDaemon d;
  const auto team = RequestIn("team-a", "fake.salt.a");
  const std::string own = OwnKey(d);
  EXPECT_EQ(SignerOf(d, team), IdOf(own));
  const std::string team_key = Rotate(d, "team-a");
  EXPECT_EQ(OwnKey(d), own);
  EXPECT_EQ(SignerOf(d, RequestIn("team-a", "fake.salt.b")), IdOf(team_key));
  EXPECT_EQ(SignerOf(d, RequestIn("team-b", "fake.salt.b")), IdOf(own));
  EXPECT_TRUE(IsHit(d, team));
  EXPECT_TRUE(LoadWith(*SessionAt(d, "team-a"), "fake.salt.b").ok());
  // The key of one team takes nothing from another.
  ASSERT_TRUE(Revoke(d, IdOf(team_key)).ok());
  EXPECT_FALSE(IsHit(d, RequestIn("team-a", "fake.salt.b")));
  EXPECT_TRUE(IsHit(d, team));
  EXPECT_TRUE(IsHit(d, RequestIn("team-b", "fake.salt.b")));
  EXPECT_NE(SignerOf(d, RequestIn("team-a", "fake.salt.c")), IdOf(own));
}

TEST(Keys, AnotherDaemonsKeyIsRevokedFarAndNear) {
  RedisServer redis;
  const auto far = [&](Config& config) {
    config.far_addresses = {redis.address()};
  };
  TestDaemon first(far);
  for (const char* order : {"fake.salt.a", "fake.salt.b"})
    ASSERT_TRUE(first.client().Compile(FakeRequest({order})).status.ok());
  ASSERT_NO_FATAL_FAILURE(AwaitStat(first, "far.writes", 4));
  TestDaemon second([&](Config& config) {
    far(config);
    config.trusted_keys = {OwnKey(first)};
  });
  EXPECT_TRUE(IsHit(second, FakeRequest({"fake.salt.a"})));
  ASSERT_TRUE(Revoke(second, OwnKey(first)).ok());
  // The one is near by now, the other far.
  EXPECT_FALSE(IsHit(second, FakeRequest({"fake.salt.a"})));
  EXPECT_FALSE(IsHit(second, FakeRequest({"fake.salt.b"})));
  EXPECT_GE(StatOf(second, "far.refused"), 2);
  // The configuration still trusts it: a revocation is for good.
  second.Restart();
  EXPECT_FALSE(IsHit(second, FakeRequest({"fake.salt.b"})));
}

TEST(Keys, WhatAnotherDaemonSignedIsFoundAfterAScrubWhenTheOwnKeyIsRevoked) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  const wire::CompileRequest request = FakeRequest({"fake.salt.a"});
  ASSERT_TRUE(first.client().Compile(request).status.ok());
  ASSERT_NO_FATAL_FAILURE(AwaitStat(first, "far.writes", 2));
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {OwnKey(first)};
  });
  EXPECT_TRUE(IsHit(second, request));
  redis.Kill();
  // Stored near a moment after the answer.
  const SteadyTime deadline = After(SteadyNow(), absl::Seconds(30));
  while (!IsHit(second, request))
    ASSERT_GT(TimeLeft(deadline), absl::ZeroDuration());
  wire::RevokeKeyRequest revoke;
  revoke.set_key_hex(OwnKey(second));
  wire::RevokeKeyReply revoked;
  grpc::ClientContext context;
  const grpc::Status answer =
      AdminStub(second.client())->RevokeKey(&context, revoke, &revoked);
  ASSERT_TRUE(answer.ok()) << answer.error_message();
  EXPECT_TRUE(revoked.needs_scrub());
  ASSERT_EQ(revoked.signs_now_size(), 1);
  EXPECT_EQ(absl::BytesToHexString(revoked.signs_now(0).public_key()),
            OwnKey(second));
  second.Restart();  // what was read before the revocation is gone
  EXPECT_FALSE(IsHit(second, request));
  Scrub(second);
  EXPECT_TRUE(IsHit(second, request));
}

TEST(Keys, AnotherDaemonMayBeTrustedInOneNamespaceAlone) {
  RedisServer redis;
  TestDaemon first(
      [&](Config& config) { config.far_addresses = {redis.address()}; });
  const std::string team_key = Rotate(first, "team-a");
  const std::string own = OwnKey(first);
  for (const char* name : {"team-a", "team-b"}) {
    ASSERT_TRUE(
        first.client().Compile(RequestIn(name, "fake.salt.a")).status.ok());
  }
  ASSERT_NO_FATAL_FAILURE(AwaitStat(first, "far.writes", 3));
  TestDaemon second([&](Config& config) {
    config.far_addresses = {redis.address()};
    config.trusted_keys = {absl::StrCat("team-a:", team_key),
                           absl::StrCat("team-a:", own)};
  });
  EXPECT_TRUE(IsHit(second, RequestIn("team-a", "fake.salt.a")));
  EXPECT_FALSE(IsHit(second, RequestIn("team-b", "fake.salt.a")));
  // Units are for everybody, and so not by its word.
  const CompileAnswer made =
      second.client().Compile(RequestIn("team-b", "fake.salt.a"));
  EXPECT_EQ(made.result.served_from(), CompileResult::SERVED_FROM_COMPILE);
  EXPECT_GT(second.count(Count::kUnitsBuilt), 0);
}

TEST(Keys, ABundleSignedByARevokedKeyIsRefused) {
  TestDaemon d;
  auto made = std::make_shared<ArtifactShelf>();
  ASSERT_TRUE(LoadWith(*SessionAt(d, "", made), "fake.salt.a").ok());
  const std::string bundle = made->Save();
  auto shelf = std::make_shared<ArtifactShelf>();
  const auto session = SessionAt(d, "", shelf);
  ASSERT_TRUE(LoadBundle(bundle, {session}, *shelf).ok());
  ASSERT_TRUE(Revoke(d, OwnKey(d)).ok());
  auto again = std::make_shared<ArtifactShelf>();
  EXPECT_EQ(ReasonOf(LoadBundle(bundle, {session}, *again).status()),
            ErrorReason::kArtifactUntrusted);
}

TEST(Keys, AConfiguredKeyThatTheDaemonRevokedCountsNoMore) {
  TestDaemon d([](Config& config) {
    config.tcp = "127.0.0.1:0";
    config.tcp_plain = true;
  });
  const std::string before = OwnKey(d);
  DaemonAddress address;
  address.tcp = absl::StrCat("127.0.0.1:", d.daemon().tcp_port());
  address.public_keys = {*PublicKey::FromBytes(absl::HexStringToBytes(before))};
  const auto client = CompileClient::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string id = absl::HexStringToBytes(IdOf(before));
  EXPECT_TRUE((*client)->keys().Find(id).ok());
  const std::string after = Rotate(d);
  EXPECT_TRUE((*client)->RefreshKeys().ok());  // the old one still counts there
  EXPECT_FALSE((*client)
                   ->keys()
                   .Find(absl::HexStringToBytes(IdOf(after)))
                   .ok());  // a daemon on TCP gives nobody trust
  ASSERT_TRUE(Revoke(d, before).ok());
  EXPECT_EQ(ReasonOf((*client)->RefreshKeys()),
            ErrorReason::kArtifactUntrusted);
  EXPECT_EQ(ReasonOf(CompileClient::Connect(address).status()),
            ErrorReason::kArtifactUntrusted);
  address.public_keys.push_back(
      *PublicKey::FromBytes(absl::HexStringToBytes(after)));
  const auto next = CompileClient::Connect(address);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE((*next)->keys().Find(id).ok());
}

TEST(Keys, AreTheirOwnersAloneAndChangesAreAudited) {
  TestDaemon d;
  Rotate(d, "team-a");
  ASSERT_TRUE(Revoke(d, OwnKey(d)).ok());
  for (const char* name : {"signing.key", "signing.team-a.key", "keys"}) {
    struct stat info = {};
    ASSERT_EQ(
        stat(absl::StrCat(d.config().data_folder, "/", name).c_str(), &info), 0)
        << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  EXPECT_EQ(ReasonOf(Revoke(d, "abc")), ErrorReason::kBadOption);
  std::ifstream in(absl::StrCat(d.config().data_folder, "/audit.log"));
  std::ostringstream audit;
  audit << in.rdbuf();
  for (const char* line :
       {"\"what\":\"rotate key\",\"subject\":\"team-a\",\"outcome\":\"OK\"",
        "\"what\":\"revoke key\"",
        "\"subject\":\"abc\",\"outcome\":\"BAD_OPTION\""}) {
    EXPECT_TRUE(absl::StrContains(audit.str(), line)) << audit.str();
  }
}

}  // namespace
}  // namespace kiln

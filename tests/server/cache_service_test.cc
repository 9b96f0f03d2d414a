// Who may read a daemon's records and write into its cache, through its TLS door.
#include "server/cache_service.h"

#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cache/entry_format.h"
#include "cache/entry_id.h"
#include "cache/far/peer_far_store.h"
#include "gtest/gtest.h"
#include "proto/artifact.pb.h"
#include "proto/base/assemble.h"
#include "proto/base/digest.h"
#include "proto/base/seal.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/cache_entry.pb.h"
#include "server/counters.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/raw_http2.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_bridge.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

SteadyTime Soon() { return SteadyIn(absl::Seconds(60)); }

// In front of two daemons, of which one takes what the other made: callers reader,
// publisher and narrow (a reader and publisher of team-a alone).
class CacheServiceTest : public testing::Test {
 protected:
  CacheServiceTest()
      : maker_([&](Config& config) { Open(config, "a"); }),
        taker_([&](Config& config) {
          Open(config, "b");
          config.trusted_keys = {
              KeyHexOf(maker_),
              absl::StrCat("team-a:", absl::BytesToHexString(
                                          team_a_.public_key().bytes()))};
        }) {}

  void Open(Config& config, const std::string& name) {
    tls_.OpenDoor(config, name, 0,
                  {{"cert:reader.example", {Role::kReader, {"*"}}},
                   {"cert:publisher.example", {Role::kPublisher, {"*"}}},
                   {"cert:narrow.example", {Role::kPublisher, {"team-a"}}}});
  }

  std::shared_ptr<PeerFarStore> As(const std::string& caller, TestDaemon& d) {
    auto opened = PeerFarStore::Open(
        {.address = absl::StrCat("127.0.0.1:", d.daemon().tcp_port()),
         .tls = tls_.TlsOf(caller),
         .max_record_bytes = 8 << 20});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *opened;
  }

  // Has the maker compile something in the namespace "default"; its name.
  FarName Make() { return Make(request_); }
  FarName Make(const wire::CompileRequest& request) {
    const CompileAnswer made = maker_.client().Compile(request);
    EXPECT_TRUE(made.status.ok()) << made.status;
    wire::ArtifactEnvelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(made.result.artifact().envelope()));
    return {*Digest::FromBytes(envelope.compile_key()),
            *Digest::FromBytes(envelope.entry_id())};
  }

  bool TakerHasIt() {
    const auto found = taker_.client().Lookup(LookupFor(request_));
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && found->outcome() == wire::LookupReply::OUTCOME_HIT;
  }

  const wire::CompileRequest request_ = FakeRequest({"fake.salt.a"});
  const SigningKey team_a_ = *SigningKey::Generate();
  TlsDaemons tls_;
  TestDaemon maker_, taker_;
};

TEST_F(CacheServiceTest, AReaderReadsAndWritesNothing) {
  const FarName name = Make();
  const auto record = As("reader", maker_)->Get(name, Soon());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(As("reader", maker_)->Hints(name.key, Soon())->size(), 1u);
  EXPECT_EQ(maker_.count(Count::kRecordsGiven), 1);
  const absl::Status put = As("reader", taker_)->Put(name, "", *record, Soon());
  EXPECT_EQ(ReasonOf(put), ErrorReason::kPermission) << put;
  EXPECT_TRUE(absl::StrContains(AuditOf(taker_), "put_record"));
  EXPECT_EQ(taker_.count(Count::kRecordsTaken), 0);
  EXPECT_FALSE(TakerHasIt());
}

TEST_F(CacheServiceTest, APublisherWritesWhatATrustedDaemonSigned) {
  const FarName name = Make();
  const auto record = As("publisher", maker_)->Get(name, Soon());
  ASSERT_TRUE(record.ok()) << record.status();
  const absl::Status put =
      As("publisher", taker_)->Put(name, "", *record, Soon());
  EXPECT_TRUE(put.ok()) << put;
  EXPECT_EQ(taker_.count(Count::kRecordsTaken), 1);
  EXPECT_TRUE(TakerHasIt());
  EXPECT_TRUE(absl::StrContains(
      AuditOf(taker_),
      absl::StrCat("\"who\":\"cert:publisher.example\",\"what\":\"put_record\","
                   "\"subject\":\"default key ",
                   name.key.ShortHex())))
      << AuditOf(taker_);
  // Its maker takes it back too.
  EXPECT_TRUE(As("publisher", maker_)->Put(name, "", *record, Soon()).ok());
}

TEST_F(CacheServiceTest, AnUnsoundRecordIsRefusedAndCounted) {
  const FarName name = Make();
  std::string record = *As("publisher", maker_)->Get(name, Soon());
  FarName another = name;
  another.key = Sha256Of("another");
  EXPECT_FALSE(As("publisher", taker_)->Put(another, "", record, Soon()).ok());
  record[record.size() / 2] ^= 1;
  EXPECT_FALSE(As("publisher", taker_)->Put(name, "", record, Soon()).ok());
  EXPECT_EQ(taker_.count(Count::kRecordsRefused), 2);
  EXPECT_EQ(taker_.count(Count::kRecordsTaken), 0);
  EXPECT_FALSE(TakerHasIt());
}

TEST_F(CacheServiceTest, ARecordOfAnotherNamespaceIsNotThere) {
  const FarName name = Make();
  EXPECT_TRUE(
      absl::IsNotFound(As("narrow", maker_)->Get(name, Soon()).status()));
  EXPECT_TRUE(As("narrow", maker_)->Hints(name.key, Soon())->empty());
  const auto record = As("reader", maker_)->Get(name, Soon());
  ASSERT_TRUE(record.ok()) << record.status();
  const absl::Status put = As("narrow", taker_)->Put(name, "", *record, Soon());
  EXPECT_EQ(ReasonOf(put), ErrorReason::kPermission) << put;
  EXPECT_FALSE(TakerHasIt());
}

// Its key counts in team-a, and it is a publisher there; the key is of "default".
TEST_F(CacheServiceTest, APublisherOfOneNamespaceWritesUnderNoKeyOfAnother) {
  ASSERT_TRUE(taker_.client().Compile(request_).status.ok());
  const FarName name = Make();
  const absl::StatusOr<std::string> record =
      As("reader", taker_)->Get(name, Soon());
  ASSERT_TRUE(record.ok()) << record.status();
  const auto forge = [&](const Digest& id, int64_t created) {
    wire::CacheEntry entry;
    const auto taker_key =
        PublicKey::FromBytes(absl::HexStringToBytes(KeyHexOf(taker_)));
    EXPECT_TRUE(
        entry.ParseFromString(*OpenRecord(*name.entry, *record, {*taker_key})));
    entry.mutable_key()->set_cache_namespace("team-a");
    entry.mutable_facts()->set_entry_id(id.ToBytes());
    entry.mutable_facts()->set_created_unix_ms(created);
    wire::ArtifactEnvelope envelope;
    EXPECT_TRUE(envelope.ParseFromString(entry.artifact().envelope()));
    envelope.set_cache_namespace("team-a");
    envelope.set_entry_id(id.ToBytes());
    *entry.mutable_artifact() =
        SealArtifact(team_a_, envelope, entry.artifact().artifact());
    return SealRecord(id, DeterministicBytes(entry), team_a_);
  };
  for (int i = 0; i <= kMaxEntriesPerKey; ++i) {
    // Its own id, and such as nothing makes.
    const Digest id = i == 0 ? *name.entry : Sha256Of(absl::StrCat(i));
    const absl::Status put =
        As("narrow", taker_)
            ->Put({name.key, id}, "", forge(id, (int64_t{1} << 50) + i),
                  Soon());
    EXPECT_EQ(ReasonOf(put), ErrorReason::kArtifactCorrupt) << put;
  }
  EXPECT_EQ(taker_.count(Count::kRecordsTaken), 0);
  EXPECT_EQ(taker_.count(Count::kRecordsRefused), kMaxEntriesPerKey + 1);
  // Theirs is served, and shown as theirs.
  EXPECT_TRUE(TakerHasIt());
  EXPECT_TRUE(As("narrow", taker_)->Hints(name.key, Soon())->empty());
  grpc::ClientContext context;
  wire::ListReply listed;
  ASSERT_TRUE(AdminStub(taker_.client())->List(&context, {}, &listed).ok());
  ASSERT_EQ(listed.entries_size(), 1);
  EXPECT_EQ(listed.entries(0).cache_namespace(), "default");
}

TEST_F(CacheServiceTest, ACallerThatTakesNoRecordsLocksNobodyOut) {
  // All its records are more than calls under way may hold together.
  constexpr int kCalls = 100;
  const FarName name = Make(FakeRequest({"fake.build_pad.4194304"}));
  wire::GetRecordRequest request;
  request.mutable_name()->set_key(name.key.ToBytes());
  request.mutable_name()->set_entry(name.entry->ToBytes());
  request.set_max_bytes(8 << 20);
  const TlsBridge bridge(maker_.daemon().tcp_port(), tls_.TlsOf("reader"));
  RawHttp2 reader(bridge.socket());
  for (int i = 0; i < kCalls; ++i)
    reader.Call("/kiln.wire.CacheService/Get", request.SerializeAsString());
  while (maker_.count(Count::kRecordsGiven) < kCalls)
    absl::SleepFor(absl::Milliseconds(1));
  const auto record = As("publisher", maker_)->Get(name, Soon());
  EXPECT_TRUE(record.ok()) << record.status();
  EXPECT_GT(maker_.count(Count::kCallsRefused), 0);
}

TEST_F(CacheServiceTest, AStrangerGetsNothing) {
  const FarName name = Make();
  const absl::Status refused =
      As("stranger", maker_)->Get(name, Soon()).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << refused;
  EXPECT_EQ(maker_.count(Count::kRecordsGiven), 0);
}

}  // namespace
}  // namespace kiln

// The Redis tier against real servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/entry_id.h"
#include "cache/far/redis_far_store.h"
#include "proto/base/status.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_ca.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

RedisFarStore::Options OptionsOf(std::vector<HostPort> seeds) {
  RedisFarStore::Options options;
  options.seeds = std::move(seeds);
  options.ttl = absl::Hours(1);
  options.max_record_bytes = 1 << 20;
  return options;
}

// Long enough that only what never comes is late.
SteadyTime Soon() { return After(SteadyNow(), absl::Seconds(20)); }

FarName Entry(const std::string& key, const std::string& id) {
  return {Sha256Of(key), Sha256Of(id)};
}

// Stores and finds, entries and units.
void ExpectWorks(RedisFarStore& store, const std::string& salt = "") {
  const FarName name = Entry("key" + salt, "entry" + salt);
  EXPECT_TRUE(absl::IsNotFound(store.Get(name, Soon()).status()));
  const absl::Status put = store.Put(name, "hint", "record", Soon());
  ASSERT_TRUE(put.ok()) << put;
  EXPECT_EQ(*store.Get(name, Soon()), "record");
  const auto hints = store.Hints(name.key, Soon());
  ASSERT_TRUE(hints.ok()) << hints.status();
  ASSERT_EQ(hints->size(), 1u);
  EXPECT_EQ(hints->front().id, name.entry->ToBytes());
  EXPECT_EQ(hints->front().hint, "hint");
  const FarName unit = {Sha256Of("unit" + salt), std::nullopt};
  ASSERT_TRUE(store.Put(unit, "", "object", Soon()).ok());
  EXPECT_EQ(*store.Get(unit, Soon()), "object");
}

// Listens, accepts nobody's words: connections are made, and no byte ever comes.
class BlackHole {
 public:
  BlackHole() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 128), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~BlackHole() { close(fd_); }
  HostPort place() const { return {"127.0.0.1", port_}; }

 private:
  const int fd_;
  int port_ = 0;
};

class RedisTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { signal(SIGPIPE, SIG_IGN); }
};

TEST_F(RedisTest, RecordsAndHintsOfOneServer) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  ExpectWorks(store);
  // Two writers, each without reading: a union.
  RedisFarStore other(OptionsOf({redis.place()}));
  ASSERT_TRUE(other.Put(Entry("key", "second"), "h2", "r2", Soon()).ok());
  EXPECT_EQ(store.Hints(Sha256Of("key"), Soon())->size(), 2u);
  // All of it ends.
  for (const std::string& name : {RedisIndexName(Sha256Of("key")),
                                  RedisRecordName(Entry("key", "second"))}) {
    const int64_t left = AskRedis(redis.place(), {"PTTL", name}).integer;
    EXPECT_GT(left, 0) << name;
    EXPECT_LE(left, 3600 * 1000) << name;
  }
}

TEST_F(RedisTest, AKeyHasSoManyEntriesAndNoMore) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  const std::string record(kMaxRecordInIndex + 1, 'r');
  for (int i = 0; i < kMaxEntriesPerKey + 5; ++i) {
    const FarName name = Entry("key", absl::StrCat("entry", i));
    ASSERT_TRUE(store.Put(name, "hint", record, Soon()).ok());
  }
  EXPECT_EQ(store.Hints(Sha256Of("key"), Soon())->size(),
            size_t{kMaxEntriesPerKey});
  EXPECT_EQ(AskRedis(redis.place(), {"DBSIZE"}).integer, kMaxEntriesPerKey + 1);
  // Also of an index that somebody else filled.
  const std::string index = RedisIndexName(Sha256Of("other"));
  for (int i = 0; i < 100; ++i)
    AskRedis(redis.place(), {"HSET", index, absl::StrCat(i), "x"});
  EXPECT_EQ(store.Hints(Sha256Of("other"), Soon())->size(),
            size_t{kMaxEntriesPerKey});
}

TEST_F(RedisTest, TheOnlyEntryOfAKeyComesWithItsHintIfItIsSmall) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  const auto records_with_hints = [&store](const std::string& key) {
    std::vector<std::string> records;
    const auto hints = store.Hints(Sha256Of(key), Soon());
    for (const FarHint& hint : *hints) records.push_back(hint.record);
    return records;
  };
  const FarName only = Entry("key", "only");
  ASSERT_TRUE(store.Put(only, "hint", "small", Soon()).ok());
  EXPECT_THAT(records_with_hints("key"), ElementsAre("small"));
  EXPECT_EQ(AskRedis(redis.place(), {"DBSIZE"}).integer, 1);
  // Also when it is written anew.
  ASSERT_TRUE(store.Put(only, "hint", "newer", Soon()).ok());
  EXPECT_THAT(records_with_hints("key"), ElementsAre("newer"));
  // A second does not, and both are there.
  const FarName second = Entry("key", "second");
  ASSERT_TRUE(store.Put(second, "hint", "other", Soon()).ok());
  EXPECT_THAT(records_with_hints("key"), UnorderedElementsAre("newer", ""));
  EXPECT_EQ(*store.Get(only, Soon()), "newer");
  EXPECT_EQ(*store.Get(second, Soon()), "other");
  // Nor does one that is large.
  const std::string large(kMaxRecordInIndex + 1, 'l');
  ASSERT_TRUE(store.Put(Entry("k", "large"), "hint", large, Soon()).ok());
  EXPECT_THAT(records_with_hints("k"), ElementsAre(""));
  EXPECT_EQ(*store.Get(Entry("k", "large"), Soon()), large);
  // A field that is none has neither hint nor record.
  const FarName torn = Entry("torn", "entry");
  for (const std::string& field :
       {std::string("xyz"), std::string("\xff\xff\xff\xff hint"),
        std::string(5, '\xff')}) {
    AskRedis(redis.place(),
             {"HSET", RedisIndexName(torn.key), torn.entry->ToBytes(), field});
    const auto hints = store.Hints(torn.key, Soon());
    ASSERT_EQ(hints->size(), 1u);
    EXPECT_EQ(hints->front().hint, "");
    EXPECT_EQ(hints->front().record, "");
    EXPECT_TRUE(absl::IsNotFound(store.Get(torn, Soon()).status()));
  }
}

TEST_F(RedisTest, WhatIsTooLargeOrOfAnotherKindIsRefused) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  const FarName large = Entry("key", "large");
  AskRedis(redis.place(),
           {"SET", RedisRecordName(large), std::string((1 << 20) + 1, 'x')});
  EXPECT_EQ(ReasonOf(store.Get(large, Soon()).status()),
            ErrorReason::kTooLarge);
  AskRedis(redis.place(), {"SET", RedisIndexName(large.key), "no hash"});
  const absl::Status wrong = store.Hints(large.key, Soon()).status();
  EXPECT_EQ(ReasonOf(wrong), ErrorReason::kStorage) << wrong;
  EXPECT_TRUE(absl::StrContains(wrong.message(), "WRONGTYPE")) << wrong;
  ExpectWorks(store, "after");
}

TEST_F(RedisTest, UserAndPassword) {
  RedisServer redis({"--user", "kiln", "on", ">secret-1", "~kiln:*", "+@all",
                     "--requirepass", "secret-2"});
  RedisFarStore::Options options = OptionsOf({redis.place()});
  options.user = "kiln";
  options.password = "secret-1";
  RedisFarStore by_user(options);
  ExpectWorks(by_user, "user");
  options.user = "";
  options.password = "secret-2";
  RedisFarStore by_password(options);
  ExpectWorks(by_password, "password");

  options.password = "secret-3";
  RedisFarStore wrong(options);
  const absl::Status refused =
      wrong.Get(Entry("key", "entry"), Soon()).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << refused;
  EXPECT_FALSE(absl::StrContains(refused.ToString(), "secret")) << refused;
  // And then it is left alone for a while.
  EXPECT_TRUE(
      wrong.WasLeftAlone(wrong.Get(Entry("key", "entry"), Soon()).status()));
}

TEST_F(RedisTest, OverTlsBothSidesProveThemselves) {
  const ShortFolder folder;
  TestCa ca(folder.path(), "ca");
  TestCa stranger(folder.path(), "stranger");
  const TestCa::Files server = ca.Issue("redis", "server");
  const TestCa::Files client = ca.Issue("kilnd", "client");
  RedisServer redis(
      {"--tls-cert-file", server.certificate, "--tls-key-file", server.key,
       "--tls-ca-cert-file", ca.file(), "--tls-auth-clients", "yes"},
      /*tls=*/true);
  RedisFarStore::Options options = OptionsOf({redis.place()});
  options.tls = {ca.file(), client.certificate, client.key};
  RedisFarStore store(options);
  ExpectWorks(store);

  options.seeds = {{"localhost", redis.port()}};
  RedisFarStore by_name(options);
  ExpectWorks(by_name, "by name");

  options.tls.ca = stranger.file();
  options.seeds = {redis.place()};
  RedisFarStore of_another_ca(options);
  EXPECT_EQ(ReasonOf(of_another_ca.Hints(Sha256Of("k"), Soon()).status()),
            ErrorReason::kPermission);
  options.tls = {ca.file(), "", ""};
  RedisFarStore without_certificate(options);
  EXPECT_FALSE(without_certificate.Hints(Sha256Of("k"), Soon()).ok());
}

// Connections that the server has ever accepted; the asker's is one of them.
int64_t AcceptedBy(const HostPort& place) {
  const std::string stats = AskRedis(place, {"INFO", "stats"}).text;
  const std::string word = "total_connections_received:";
  int64_t accepted = 0;
  EXPECT_EQ(
      sscanf(stats.c_str() + stats.find(word) + word.size(), "%ld", &accepted),
      1)
      << stats;
  return accepted;
}

TEST_F(RedisTest, ItsFirstAsksFindConnectionsThatWereMadeBefore) {
  const auto servers = StartRedisCluster(6);
  RedisFarStore store(OptionsOf({servers[0]->place()}));
  const absl::Status connected = store.Connect(Soon());
  ASSERT_TRUE(connected.ok()) << connected;
  std::vector<int64_t> before;
  for (const auto& server : servers)
    before.push_back(AcceptedBy(server->place()));
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(store.Hints(Sha256Of(absl::StrCat("key", i)), Soon()).ok());
  for (size_t i = 0; i < servers.size(); ++i)
    EXPECT_EQ(AcceptedBy(servers[i]->place()), before[i] + 1) << i;
}

TEST_F(RedisTest, WhereItCannotConnectItSaysSo) {
  RedisFarStore store(OptionsOf({{"127.0.0.1", 1}}));
  const absl::Status refused = store.Connect(Soon());
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStorage) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "127.0.0.1:1")) << refused;
}

TEST_F(RedisTest, ACertificateOfAnotherHostIsRefused) {
  const ShortFolder folder;
  TestCa ca(folder.path(), "ca");
  const TestCa::Files server = ca.Issue("redis", "server");
  RedisServer redis(
      {"--tls-cert-file", server.certificate, "--tls-key-file", server.key,
       "--tls-ca-cert-file", ca.file(), "--tls-auth-clients", "no", "--bind",
       "127.0.0.1", "127.0.0.2"},
      /*tls=*/true);
  RedisFarStore::Options options = OptionsOf({{"127.0.0.2", redis.port()}});
  options.tls.ca = ca.file();
  RedisFarStore store(options);
  const absl::Status refused = store.Hints(Sha256Of("k"), Soon()).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << refused;
}

TEST_F(RedisTest, AServerThatIsGoneAndComesBack) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  ExpectWorks(store);
  redis.Restart();
  // The idle connection is closed; another is opened, and nobody notices.
  ExpectWorks(store, "again");
  redis.Kill();
  const FarName name = Entry("key", "entry");
  EXPECT_EQ(ReasonOf(store.Get(name, Soon()).status()), ErrorReason::kStorage);
  const absl::Status paused = store.Get(name, Soon()).status();
  EXPECT_TRUE(store.WasLeftAlone(paused));
  EXPECT_EQ(paused.message(),
            absl::StrCat("redis ", redis.place().Text(), ": connect to ",
                         redis.place().Text(),
                         ": Connection refused; left alone for 1s"));
  redis.Restart();
  const SteadyTime patience = Soon();
  while (store.WasLeftAlone(store.Get(name, Soon()).status()))
    ASSERT_LT(SteadyNow(), patience);
  ExpectWorks(store, "back");
}

TEST_F(RedisTest, ABlackHoleCostsOneBudgetAndIsThenLeftAlone) {
  const BlackHole hole;
  RedisFarStore store(OptionsOf({hole.place()}));
  const auto ask = [&store] {
    return store
        .Hints(Sha256Of("k"), After(SteadyNow(), absl::Milliseconds(100)))
        .status();
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(ask()));
  EXPECT_TRUE(store.WasLeftAlone(ask()));
  // An address that drops what it is sent (RFC 5737 gives it to nobody).
  RedisFarStore nowhere(OptionsOf({{"192.0.2.1", 6379}}));
  EXPECT_FALSE(
      nowhere.Hints(Sha256Of("k"), After(SteadyNow(), absl::Milliseconds(100)))
          .ok());
  EXPECT_TRUE(
      nowhere.WasLeftAlone(nowhere.Hints(Sha256Of("k"), Soon()).status()));
}

TEST_F(RedisTest, AHoleBesideAServerIsPassedBy) {
  const BlackHole hole;
  RedisServer redis;
  RedisFarStore store(OptionsOf({hole.place(), redis.place()}));
  const absl::Status first =
      store.Hints(Sha256Of("k"), After(SteadyNow(), absl::Milliseconds(100)))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(first)) << first;
  ExpectWorks(store);
}

TEST_F(RedisTest, AClusterWithAPrimaryKilledInTheMiddle) {
  const auto cluster = StartRedisCluster(6);
  RedisFarStore store(OptionsOf({cluster[0]->place()}));
  for (int i = 0; i < 20; ++i) ExpectWorks(store, absl::StrCat(i));
  // Two names each, on a primary and, a little later, on its replica.
  const auto all_names = [&cluster] {
    int64_t names = 0;
    for (const auto& node : cluster)
      names += AskRedis(node->place(), {"DBSIZE"}).integer;
    return names;
  };
  const SteadyTime replicated = After(SteadyNow(), absl::Seconds(60));
  while (all_names() != 20 * 2 * 2) ASSERT_LT(SteadyNow(), replicated);

  cluster[1]->Kill();
  // Keys of the others are served all the while, those of the dead one once its
  // replica has taken over. No call is waited for beyond its deadline.
  const SteadyTime patience = After(SteadyNow(), absl::Seconds(60));
  int served = 0;
  int failed = 0;
  for (int i = 0; served < 60; i = (i + 1) % 20) {
    ASSERT_LT(SteadyNow(), patience) << served << " in a row, " << failed;
    const auto found =
        store.Get(Entry(absl::StrCat("key", i), absl::StrCat("entry", i)),
                  After(SteadyNow(), absl::Milliseconds(200)));
    served = found.ok() ? served + 1 : 0;
    failed += found.ok() ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(found.value_or("record"), "record");
  }
  EXPECT_GT(failed, 0);
  for (int i = 100; i < 110; ++i) ExpectWorks(store, absl::StrCat(i));
}

TEST_F(RedisTest, ASlotThatMovesIsFollowed) {
  const auto cluster = StartRedisCluster(6);
  RedisFarStore store(OptionsOf({cluster[0]->place()}));
  const FarName name = Entry("key", "entry");
  // Too large for the index, so that there are two names to move.
  const std::string large(kMaxRecordInIndex + 1, 'r');
  ASSERT_TRUE(store.Put(name, "hint", large, Soon()).ok());
  const std::string record = RedisRecordName(name);
  const int slot = SlotOf(record);
  // Of the three primaries the one that has it, and another.
  RedisServer* from = nullptr;
  RedisServer* to = nullptr;
  for (int i = 0; i < 3; ++i) {
    const RespValue has = AskRedis(cluster[i]->place(), {"EXISTS", record});
    (has.is(RespValue::Kind::kInteger) ? from : to) = cluster[i].get();
  }
  ASSERT_NE(from, nullptr);
  ASSERT_NE(to, nullptr);
  const std::string from_id = AskRedis(from->place(), {"CLUSTER", "MYID"}).text;
  const std::string to_id = AskRedis(to->place(), {"CLUSTER", "MYID"}).text;
  const std::string number = absl::StrCat(slot);
  const auto set_slot = [&](RedisServer& at, const char* state,
                            const std::string& node) {
    const RespValue done =
        AskRedis(at.place(), {"CLUSTER", "SETSLOT", number, state, node});
    EXPECT_EQ(done.text, "OK");
  };
  set_slot(*to, "IMPORTING", from_id);
  set_slot(*from, "MIGRATING", to_id);
  const RespValue moved = AskRedis(
      from->place(),
      {"MIGRATE", "127.0.0.1", absl::StrCat(to->port()), record, "0", "5000"});
  EXPECT_EQ(moved.text, "OK");
  // ASK: its old node sends there for what it has no more.
  const auto asked = store.Get(name, Soon());
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(*asked, large);
  AskRedis(from->place(), {"MIGRATE", "127.0.0.1", absl::StrCat(to->port()),
                           RedisIndexName(name.key), "0", "5000"});
  set_slot(*to, "NODE", to_id);
  set_slot(*from, "NODE", to_id);
  // MOVED.
  EXPECT_EQ(*store.Get(name, Soon()), large);
  EXPECT_EQ(store.Hints(name.key, Soon())->size(), 1u);
}

TEST_F(RedisTest, ALeaseIsOneHoldersUntilItIsGivenBackOrRunsOut) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  FarLeases& leases = *store.leases();
  const LeaseName name = {Sha256Of("key"), Sha256Of("job")};
  const absl::Duration life = absl::Hours(1);
  EXPECT_TRUE(*leases.Take(name, "a", life, Soon()));
  EXPECT_FALSE(*leases.Take(name, "b", life, Soon()));
  // A command may run twice.
  EXPECT_TRUE(*leases.Take(name, "a", life, Soon()));
  EXPECT_FALSE(*leases.Extend(name, "b", life, Soon()));
  EXPECT_TRUE(leases.GiveBack(name, "b", Soon()).ok());
  EXPECT_TRUE(*leases.Extend(name, "a", 2 * life, Soon()));
  EXPECT_GT(AskRedis(redis.place(), {"PTTL", RedisLeaseName(name)}).integer,
            absl::ToInt64Milliseconds(life));
  EXPECT_TRUE(leases.GiveBack(name, "a", Soon()).ok());
  EXPECT_TRUE(*leases.Take(name, "b", absl::Milliseconds(1), Soon()));
  const SteadyTime patience = Soon();
  while (!*leases.Take(name, "c", life, Soon())) {
    ASSERT_LT(SteadyNow(), patience);
  }
  EXPECT_FALSE(*leases.Extend(name, "b", life, Soon()));
  redis.Kill();
  EXPECT_FALSE(leases.Take(name, "a", life, Soon()).ok());
}

TEST_F(RedisTest, ManyThreadsShareAStore) {
  RedisServer redis;
  RedisFarStore store(OptionsOf({redis.place()}));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 12; ++t) {
    threads.emplace_back([&store, &wrong, t] {
      for (int i = 0; i < 40; ++i) {
        const FarName name =
            Entry(absl::StrCat("k", t), absl::StrCat("e", t, "-", i % 8));
        const std::string record = absl::StrCat("record ", t, " ", i % 8);
        if (!store.Put(name, "hint", record, Soon()).ok()) ++wrong;
        const auto found = store.Get(name, Soon());
        if (!found.ok() || *found != record) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kiln

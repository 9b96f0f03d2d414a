// What a connection of the network's door may send without a call.
#include "server/connection_watch.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/steady_time.h"
#include "tests/support/loopback.h"
#include "tests/support/raw_http2.h"
#include "tests/support/raw_tls.h"
#include "tests/support/tls_door.h"

namespace kiln {
namespace {

// A TCP connection, of which the watch has the daemon's end.
class Pair {
 public:
  Pair() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(
        bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length),
        0);
    peer_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(
        connect(peer_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    fd_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(fd_, 0);
    close(listener);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    close(peer_);
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  void Close() {
    close(fd_);
    fd_ = -1;
  }
  // The peer sends, and the daemon reads.
  void Pass(int64_t bytes) {
    std::string part(16 << 10, 'x');
    while (bytes > 0) {
      part.resize(static_cast<size_t>(
          std::min<int64_t>(bytes, static_cast<int64_t>(part.size()))));
      bytes -= static_cast<int64_t>(part.size());
      ASSERT_EQ(send(peer_, part.data(), part.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(part.size()));
      ASSERT_EQ(recv(fd_, part.data(), part.size(), MSG_WAITALL),
                static_cast<ssize_t>(part.size()));
    }
  }
  // Whether the daemon has closed it.
  bool IsShut() const {
    char byte = 0;
    const ssize_t got = recv(peer_, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  int peer_ = -1;
  int fd_ = -1;
};

constexpr int64_t kKiB = 1 << 10;
constexpr char kLeft[] = "its handshake broke off, or it made no call";
constexpr char kFlood[] = "sends much and makes no call";
constexpr char kBegun[] = "begins a call and does not end its headers";

class Watch : public testing::Test {
 protected:
  void Add(const Pair& pair, const std::string& peer) {
    watch_.Add(pair.fd(), peer, "10.0.0.1");
  }
  void Sweep(absl::Duration later = absl::ZeroDuration()) {
    watch_.Sweep(SteadyIn(later));
  }
  // Until each was looked at, those of callers too.
  void SweepAll(absl::Duration later = absl::ZeroDuration()) {
    for (int i = 0; i < 20; ++i) Sweep(later);
  }

  FakeClock clock_;
  std::vector<std::string> told_;
  ConnectionWatch watch_{
      {}, clock_, [this](const std::string& peer, absl::string_view why) {
        told_.push_back(absl::StrCat(peer, " ", why));
      }};
};

TEST_F(Watch, OneThatEndsBeforeItsFirstCallIsToldOf) {
  Pair called, mute, open;
  Add(called, "called");
  Add(mute, "mute");
  Add(open, "open");
  watch_.HearStranger("called");
  watch_.HearStranger("nobody");
  SweepAll();
  EXPECT_TRUE(told_.empty());
  called.Close();
  mute.Close();
  // The descriptors are others' by then.
  const Pair other;
  SweepAll();
  SweepAll();
  EXPECT_EQ(told_, std::vector{absl::StrCat("mute ", kLeft)});
}

TEST_F(Watch, TheSamePortAgainIsAnotherConnection) {
  Pair first, second;
  Add(first, "peer");
  Add(second, "peer");
  EXPECT_EQ(told_.size(), 1u);
  watch_.HearStranger("peer");
  SweepAll();
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(Watch, AFloodBeforeTheFirstCallIsEndedAtTheNextSweep) {
  Pair flood, usual;
  Add(flood, "flood");
  Add(usual, "usual");
  usual.Pass(256 * kKiB);
  flood.Pass(256 * kKiB);
  Sweep();
  EXPECT_TRUE(told_.empty());
  flood.Pass(1);
  Sweep();
  EXPECT_TRUE(flood.IsShut());
  EXPECT_FALSE(usual.IsShut());
  SweepAll();
  EXPECT_EQ(told_, std::vector{absl::StrCat("flood ", kFlood)});
}

TEST_F(Watch, AStrangersCallsHaveTheBoundFromOneToTheNext) {
  Pair pair;
  Add(pair, "peer");
  for (int i = 0; i < 8; ++i) {
    pair.Pass(200 * kKiB);
    Sweep();
    watch_.HearStranger("peer");
  }
  EXPECT_TRUE(told_.empty());
  pair.Pass(257 * kKiB);
  Sweep();
  EXPECT_TRUE(pair.IsShut());
}

TEST_F(Watch, AnAdmittedCallTakesWhatItLikesAndLeavesSomeOnItsWay) {
  Pair pair;
  Add(pair, "peer");
  {
    const auto one = watch_.HearCaller("peer");
    const auto another = watch_.HearCaller("peer");
    watch_.HearStranger("peer");  // a health check of the same client
    pair.Pass(64 << 20);
    SweepAll();
  }
  SweepAll();
  {
    const auto last = watch_.HearCaller("peer");
    pair.Pass(64 << 20);
    SweepAll();
  }
  SweepAll();
  pair.Pass(4 << 20);
  SweepAll(absl::Seconds(20));
  EXPECT_TRUE(told_.empty());
  EXPECT_FALSE(pair.IsShut());
  pair.Pass(1);
  SweepAll();
  EXPECT_TRUE(pair.IsShut());
}

TEST_F(Watch, ACallThatBeginsSlowlyHasTenSeconds) {
  Pair slow, idle, slow_later;
  Add(slow, "slow");
  Add(idle, "idle");
  Add(slow_later, "slow_later");
  slow.Pass(17 * kKiB);
  idle.Pass(16 * kKiB);  // a handshake, and then nothing
  watch_.HearStranger("slow_later");
  slow_later.Pass(17 * kKiB);
  Sweep(absl::Seconds(9));
  EXPECT_TRUE(told_.empty());
  Sweep(absl::Seconds(11));
  EXPECT_TRUE(slow.IsShut());
  EXPECT_TRUE(slow_later.IsShut());
  EXPECT_FALSE(idle.IsShut());
  // gRPC does not count one whose headers have begun as idle.
  Sweep(absl::Minutes(17));
  EXPECT_TRUE(idle.IsShut());
  std::sort(told_.begin(), told_.end());
  EXPECT_EQ(told_, (std::vector{absl::StrCat("idle ", kBegun),
                                absl::StrCat("slow ", kBegun),
                                absl::StrCat("slow_later ", kBegun)}));
}

TEST(ConnectionWatch, OfAllTogetherWhoeverHoldsMostLosesMost) {
  std::vector<std::string> told;
  const RealClock clock;
  ConnectionWatch watch({.all_bytes = 100 * kKiB}, clock,
                        [&](const std::string& peer, absl::string_view) {
                          told.push_back(peer);
                        });
  Pair small, large, middle, other;
  watch.Add(small.fd(), "a:1", "a");
  watch.Add(large.fd(), "a:2", "a");
  watch.Add(middle.fd(), "a:3", "a");
  watch.Add(other.fd(), "b:1", "b");
  small.Pass(10 * kKiB);
  large.Pass(40 * kKiB);
  middle.Pass(30 * kKiB);
  other.Pass(60 * kKiB);
  watch.Sweep(SteadyNow());
  EXPECT_EQ(told, std::vector<std::string>{"a:2"});
  EXPECT_TRUE(large.IsShut());
  // Each has 60 and 40 now: that fits.
  watch.Sweep(SteadyNow());
  EXPECT_EQ(told.size(), 1u);
}

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

int ConnectTo(int port) {
  const sockaddr_in address = LoopbackAddress(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

// Reads until the other end closes.
void AwaitClosed(int fd) {
  char byte;
  while (read(fd, &byte, 1) > 0) {
  }
  close(fd);
}

TEST_F(Watch, WhoResetsCallsWithoutEndIsEnded) {
  Pair caller, stranger, patient;
  Add(caller, "caller");
  Add(stranger, "stranger");
  Add(patient, "patient");
  const int most = static_cast<int>(QuietLimits().resets.at_once);
  for (int i = 0; i < most; ++i) {
    watch_.HearCaller("caller").HearReset();
    watch_.HearStranger("stranger").HearReset();
    watch_.HearCaller("patient");  // ends by itself
  }
  EXPECT_FALSE(caller.IsShut());
  EXPECT_FALSE(stranger.IsShut());
  watch_.HearCaller("caller").HearReset();
  watch_.HearStranger("stranger").HearReset();
  EXPECT_TRUE(caller.IsShut());
  EXPECT_TRUE(stranger.IsShut());
  EXPECT_FALSE(patient.IsShut());
  EXPECT_TRUE(watch_.IsEnded("caller"));
  EXPECT_FALSE(watch_.IsEnded("patient"));
  EXPECT_EQ(told_, (std::vector<std::string>{
                       "caller resets the calls that it makes",
                       "stranger resets the calls that it makes"}));
}

TEST_F(Watch, AConnectionMayResetSoManyCallsASecond) {
  Pair pair;
  Add(pair, "peer");
  const Rate rate = QuietLimits().resets;
  for (int i = 0; i < rate.at_once; ++i) watch_.HearReset("peer");
  for (int second = 0; second < 60; ++second) {
    clock_.Advance(absl::Seconds(1));
    for (int i = 0; i < rate.a_second; ++i) watch_.HearReset("peer");
  }
  EXPECT_FALSE(pair.IsShut());
  watch_.HearReset("peer");
  EXPECT_TRUE(pair.IsShut());
}

TEST_F(Watch, WhoWasEndedForResetsConnectsNoMoreForAMinute) {
  Pair pair;
  Add(pair, "peer");  // of 10.0.0.1
  EXPECT_TRUE(watch_.MayConnect("10.0.0.1"));
  for (int i = 0; i <= QuietLimits().resets.at_once; ++i)
    watch_.HearReset("peer");
  EXPECT_FALSE(watch_.MayConnect("10.0.0.1"));
  EXPECT_TRUE(watch_.MayConnect("10.0.0.2"));
  clock_.Advance(absl::Seconds(59));
  EXPECT_FALSE(watch_.MayConnect("10.0.0.1"));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(watch_.MayConnect("10.0.0.1"));
}

// As it does who reconnects before each connection's own limit.
TEST_F(Watch, ManyConnectionsOfAHolderResetNoMoreThanIsItsOwn) {
  const int of_each = static_cast<int>(QuietLimits().resets.at_once);
  const int most = static_cast<int>(QuietLimits().holder_resets.at_once);
  int resets = 0;
  while (watch_.MayConnect("10.0.0.1") && resets <= most) {
    Pair pair;
    Add(pair, "peer");
    for (int i = 0; i < of_each && !pair.IsShut(); ++i) {
      watch_.HearReset("peer");
      ++resets;
    }
  }
  EXPECT_EQ(resets, most + 1);
  EXPECT_FALSE(watch_.MayConnect("10.0.0.1"));
  // And another's are its own.
  Pair other;
  watch_.Add(other.fd(), "other", "10.0.0.2");
  watch_.HearReset("other");
  EXPECT_FALSE(other.IsShut());
}

TEST_F(Watch, WhatEndsWithItsConnectionIsNotReset) {
  Pair gone;
  Add(gone, "peer");
  gone.Close();
  const Pair other;  // has the descriptor now
  for (int i = 0; i <= QuietLimits().resets.at_once; ++i)
    watch_.HearReset("peer");
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(watch_.MayConnect("10.0.0.1"));
}

TEST_F(Watch, WhoIsNobodysHolderIsEndedAndNotBarred) {
  Pair pair;
  watch_.Add(pair.fd(), "owner", "");
  for (int i = 0; i <= QuietLimits().resets.at_once; ++i)
    watch_.HearReset("owner");
  EXPECT_TRUE(pair.IsShut());
  EXPECT_TRUE(watch_.MayConnect(""));
}

TEST_F(Watch, WhoBeginsMoreCallsThanItMayIsEndedAndBarred) {
  Pair pair;
  Add(pair, "peer");
  watch_.HearFlood("peer");
  EXPECT_TRUE(pair.IsShut());
  EXPECT_TRUE(watch_.IsEnded("peer"));
  EXPECT_FALSE(watch_.MayConnect("10.0.0.1"));
}

TEST_F(Watch, WhoHasMoreCallsThanHttp2AllowsIsEnded) {
  Pair pair;
  Add(pair, "peer");
  std::vector<ConnectionWatch::WatchedCall> calls;
  for (int i = 0; i < QuietLimits().calls; ++i)
    calls.push_back(watch_.HearCaller("peer"));
  EXPECT_FALSE(pair.IsShut());
  calls.push_back(watch_.HearCaller("peer"));
  EXPECT_TRUE(pair.IsShut());
  EXPECT_TRUE(watch_.IsEnded("peer"));
  EXPECT_EQ(told_.size(), 1u);
}

// So many calls that are reset at once, from this one on.
std::string ResetCalls(uint32_t first, uint32_t calls) {
  std::string bytes;
  for (uint32_t i = first; i < first + calls; ++i)
    absl::StrAppend(&bytes, ResetCall(kCheck, i));
  return bytes;
}

// On a busy machine a stranger's calls may be heard long after their bytes came.
constexpr int64_t kAnyBytes = int64_t{1} << 40;

void ExpectEndedForResets(TlsDoor& d) {
  RawTls stranger(d.door->tcp_port());
  ASSERT_TRUE(stranger.Send(Http2Start()));
  // The first calls are heard some time later.
  uint32_t call = 0;
  while (stranger.Send(ResetCalls(call, 1000))) call += 1000;
  while (d.counters.Get(Count::kPeersRefused) == 0) {
  }
  EXPECT_TRUE(absl::StrContains(d.Audit(), "resets the calls that it makes"))
      << d.Audit();
}

TEST(FrontDoor, CallsThatAreResetAtOnceAreEndedAndTheirPeerIsRefused) {
  TlsDoor d({.bytes = kAnyBytes, .all_bytes = kAnyBytes});
  ExpectEndedForResets(d);
  // At accept, before it has said anything.
  EXPECT_EQ(d.counters.Get(Count::kPeersTooOften), 0);
  for (int i = 1; i <= 3; ++i) {
    AwaitClosed(ConnectTo(d.door->tcp_port()));
    EXPECT_EQ(d.counters.Get(Count::kPeersTooOften), i);
  }
}

// However many it may reset: what gRPC reads ahead of the handlers is bounded.
TEST(FrontDoor, WhoBeginsCallsFasterThanTheyAreHeardIsEnded) {
  constexpr int kWithoutEnd = 1 << 30;
  TlsDoor d({.bytes = kAnyBytes,
             .all_bytes = kAnyBytes,
             .calls = kWithoutEnd,
             .resets = {.at_once = kWithoutEnd, .a_second = 1},
             .holder_resets = {.at_once = kWithoutEnd, .a_second = 1}});
  ExpectEndedForResets(d);
}

// Of CVE-2023-33953. gRPC would take it all, and thirteen times that in memory.
TEST(FrontDoor, HeadersThatDoNotEndAreEnded) {
  TlsDoor d;
  RawTls stranger(d.door->tcp_port());
  ASSERT_TRUE(stranger.Send(UnfinishedHeaders(kCheck)));
  const std::string more = MoreHeaders(200);
  int64_t sent = 0;
  while (sent < int64_t{64} << 20 && stranger.Send(more))
    sent += static_cast<int64_t>(more.size());
  EXPECT_LT(sent, int64_t{64} << 20);
  // It is counted behind the line, which is written once the connection is closed.
  while (d.counters.Get(Count::kPeersRefused) == 0) {
  }
  EXPECT_TRUE(absl::StrContains(
      d.Audit(), absl::StrCat("\"who\":\"ipv4:127.0.0.1\",\"what\":\"connect\","
                              "\"subject\":\"",
                              kFlood, "\",\"outcome\":\"UNAUTHENTICATED\"")))
      << d.Audit();
}

TEST(FrontDoor, HeadersThatComeSlowlyAreEnded) {
  TlsDoor d({.begun_bytes = 4 << 10, .begun_time = absl::Milliseconds(100)});
  RawTls stranger(d.door->tcp_port());
  ASSERT_TRUE(stranger.Send(UnfinishedHeaders(kCheck)));
  ASSERT_TRUE(stranger.Send(MoreHeaders(1000)));
  stranger.AwaitEnd();
  while (d.counters.Get(Count::kPeersRefused) == 0) {
  }
  EXPECT_TRUE(absl::StrContains(d.Audit(), kBegun)) << d.Audit();
}

}  // namespace
}  // namespace kiln

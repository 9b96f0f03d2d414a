#include "server/doorstep.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"
#include "server/peer_rates.h"

namespace kiln {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// A ClientHello's beginning of this version.
std::string Hello(int minor) {
  std::string hello("\x16\x03\x01\x00\x80\x01\x00\x00\x7c\x03", 10);
  hello.push_back(static_cast<char>(minor));
  return absl::StrCat(hello, "random");
}

std::string FaultOf(Greeting due, const std::string& said) {
  bool enough = false;
  const std::string fault(FaultOfGreeting(due, said, enough));
  return !fault.empty() ? fault : enough ? "passes" : "waits";
}

TEST(Greeting, IsAClientHelloOfTls12OrLater) {
  EXPECT_EQ(FaultOf(Greeting::kTls, Hello(3)), "passes");
  EXPECT_EQ(FaultOf(Greeting::kTls, Hello(2)), "speaks TLS before 1.2");
  EXPECT_EQ(FaultOf(Greeting::kTls, Hello(0)), "speaks TLS before 1.2");
  EXPECT_EQ(FaultOf(Greeting::kTls, "PRI * HTTP/2.0\r\n"), "speaks no TLS");
  EXPECT_EQ(FaultOf(Greeting::kTls, "GET / HTTP/1.1\r\n"), "speaks no TLS");
  // SSL 2, another record, another message.
  EXPECT_EQ(FaultOf(Greeting::kTls, "\x80\x2e\x01"), "speaks no TLS");
  EXPECT_EQ(FaultOf(Greeting::kTls, "\x16\x02"), "speaks no TLS");
  EXPECT_EQ(FaultOf(Greeting::kTls, std::string("\x16\x03\x01\x00\x80\x02", 6)),
            "speaks no TLS");
  for (size_t size = 0; size < 11; ++size)
    EXPECT_EQ(FaultOf(Greeting::kTls, Hello(3).substr(0, size)), "waits");
}

TEST(Greeting, IsAllOfHttp2sPreface) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (size_t size = 0; size < preface.size(); ++size)
    EXPECT_EQ(FaultOf(Greeting::kHttp2, preface.substr(0, size)), "waits");
  EXPECT_EQ(FaultOf(Greeting::kHttp2, preface), "passes");
  EXPECT_EQ(FaultOf(Greeting::kHttp2, absl::StrCat(preface, "x")), "passes");
  EXPECT_EQ(FaultOf(Greeting::kHttp2, "PRX"), "speaks no HTTP/2");
  EXPECT_EQ(FaultOf(Greeting::kHttp2, "GET / HTTP/1.1\r\n"),
            "speaks no HTTP/2");
}

TEST(Greeting, OfAnyKindIsAnyByte) {
  EXPECT_EQ(FaultOf(Greeting::kAny, ""), "waits");
  EXPECT_EQ(FaultOf(Greeting::kAny, "P"), "passes");
}

// A doorstep, and what became of those that stood on it.
class Step {
 public:
  explicit Step(Greeting due, absl::Duration patience = absl::Hours(1)) {
    auto started = Doorstep::Start(
        {.due = due,
         .patience = patience,
         .passes = {.at_once = kAtOnce, .a_second = 0.5}},
        clock_,
        {.pass =
             [this](int fd) {
               char said[64];
               const ssize_t got = recv(fd, said, sizeof(said), MSG_DONTWAIT);
               Tell(absl::StrCat(
                   "passed: ",
                   absl::string_view(said,
                                     got > 0 ? static_cast<size_t>(got) : 0)));
               close(fd);
             },
         .refuse =
             [this](int, absl::string_view why) {
               Tell(absl::StrCat("refused: ", why));
             },
         .put_off =
             [this](int, const std::string& peer) {
               Tell(absl::StrCat("put off: ", peer));
             }});
    EXPECT_TRUE(started.ok()) << started.status();
    doorstep_ = *std::move(started);
  }

  // The other end of a connection that waits there.
  int Connect(const std::string& peer = "") {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    doorstep_->Take(ends[0], peer);
    return ends[1];
  }
  std::string Next() {
    MutexLock lock(&mu_);
    while (told_.empty()) {
      if (!changed_.WaitFor(&mu_, kPatience)) return "nothing";
    }
    std::string first = told_.front();
    told_.erase(told_.begin());
    return first;
  }
  void End() { doorstep_.reset(); }
  // What becomes of a connection of `peer` that greets.
  std::string NextOf(const std::string& peer) {
    const int fd = Connect(peer);
    EXPECT_EQ(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    const std::string told = Next();
    close(fd);
    return told;
  }
  void Advance(absl::Duration by) { clock_.Advance(by); }

  static constexpr int kAtOnce = 3;

 private:
  void Tell(std::string what) {
    MutexLock lock(&mu_);
    told_.push_back(std::move(what));
    changed_.SignalAll();
  }
  FakeClock clock_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::string> told_;
  std::unique_ptr<Doorstep> doorstep_;  // last: its thread tells the above
};

void Say(int fd, absl::string_view words) {
  EXPECT_EQ(send(fd, words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
}

// Reads to the end of the connection.
void AwaitClosed(int fd) {
  char byte;
  while (recv(fd, &byte, 1, 0) > 0) {
  }
  close(fd);
}

TEST(Doorstep, PassesAConnectionWithAllThatItSaid) {
  Step step(Greeting::kTls);
  const int fd = step.Connect();
  Say(fd, Hello(3));
  EXPECT_EQ(step.Next(), absl::StrCat("passed: ", Hello(3)));
  AwaitClosed(fd);
}

TEST(Doorstep, PassesAPeerNoOftenerThanItMay) {
  Step step(Greeting::kAny);
  for (int i = 0; i < Step::kAtOnce; ++i)
    EXPECT_EQ(step.NextOf("a"), "passed: x");
  EXPECT_EQ(step.NextOf("a"), "put off: a");
  // Others have a rate of their own, and whose it is not has none.
  EXPECT_EQ(step.NextOf("b"), "passed: x");
  for (int i = 0; i <= Step::kAtOnce; ++i)
    EXPECT_EQ(step.NextOf(""), "passed: x");
  step.Advance(absl::Seconds(1));
  EXPECT_EQ(step.NextOf("a"), "put off: a");
  step.Advance(absl::Seconds(1));
  EXPECT_EQ(step.NextOf("a"), "passed: x");
  EXPECT_EQ(step.NextOf("a"), "put off: a");
  // However long it stays away.
  step.Advance(absl::Hours(1));
  for (int i = 0; i < Step::kAtOnce; ++i)
    EXPECT_EQ(step.NextOf("a"), "passed: x");
  EXPECT_EQ(step.NextOf("a"), "put off: a");
}

TEST(PeerRates, ForgetThoseThatHaveAllOfTheirRateAgain) {
  FakeClock clock;
  PeerRates rates({.at_once = 1, .a_second = 1}, clock);
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_TRUE(rates.Take(absl::StrCat("peer", i)));
    clock.Advance(absl::Milliseconds(10));
  }
  EXPECT_LE(rates.known_peers(), 1024u);
}

TEST(PeerRates, KnowSoManyAndLetOthersPass) {
  FakeClock clock;
  PeerRates rates({.at_once = 1, .a_second = 1}, clock);
  const int most = static_cast<int>(PeerRates::kMostPeers);
  for (int i = 0; i < most + 1000; ++i)
    EXPECT_TRUE(rates.Take(absl::StrCat("peer", i)));
  EXPECT_EQ(rates.known_peers(), PeerRates::kMostPeers);
  EXPECT_FALSE(rates.Take("peer0"));
  EXPECT_TRUE(rates.Take("another"));
  EXPECT_TRUE(rates.Take("another"));
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(rates.Take("another"));
  EXPECT_FALSE(rates.Take("another"));
  EXPECT_EQ(rates.known_peers(), 1u);
}

TEST(Doorstep, WaitsForAGreetingThatComesInPieces) {
  Step step(Greeting::kTls);
  const int fd = step.Connect();
  for (const char byte : Hello(3).substr(0, 11)) Say(fd, {&byte, 1});
  EXPECT_EQ(step.Next(), absl::StrCat("passed: ", Hello(3).substr(0, 11)));
  AwaitClosed(fd);
}

TEST(Doorstep, ClosesWhoSpeaksSomethingElse) {
  Step step(Greeting::kTls);
  const int fd = step.Connect();
  Say(fd, "PRI * HTTP/2.0");
  EXPECT_EQ(step.Next(), "refused: speaks no TLS");
  AwaitClosed(fd);
}

TEST(Doorstep, ClosesASilentPeerAndOneThatStopsHalfway) {
  Step step(Greeting::kTls, absl::Milliseconds(50));
  const int silent = step.Connect();
  EXPECT_EQ(step.Next(), "refused: says nothing");
  AwaitClosed(silent);
  const int halfway = step.Connect();
  Say(halfway, "\x16\x03");
  EXPECT_EQ(step.Next(), "refused: says nothing");
  AwaitClosed(halfway);
}

TEST(Doorstep, WhoGoesWithoutAWordIsNotRefused) {
  Step step(Greeting::kAny);
  close(step.Connect());
  const int next = step.Connect();
  Say(next, "x");
  EXPECT_EQ(step.Next(), "passed: x");
  AwaitClosed(next);
}

TEST(Doorstep, ItsEndClosesThoseThatWait) {
  Step step(Greeting::kTls);
  const int fd = step.Connect();
  step.End();
  AwaitClosed(fd);
}

}  // namespace
}  // namespace kiln

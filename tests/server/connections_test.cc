// How many connections a daemon takes, and what it does with those beyond.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/compile_service.grpc.pb.h"
#include "server/open_connections.h"
#include "tests/support/health_client.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

// A connected pair; the daemon's end is the first.
struct Pair {
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); }
  Pair(const Pair&) = delete;
  ~Pair() {
    for (const int fd : fds)
      if (fd >= 0) close(fd);
  }
  void Close() {
    close(fds[0]);
    fds[0] = -1;
  }
  int fds[2];
};

TEST(OpenConnections, AClosedOneMakesRoomForAnother) {
  OpenConnections door({.all = 3, .of_a_peer = 2});
  Pair a, b, c, d;
  EXPECT_TRUE(door.Add(a.fds[0], "10.0.0.1").ok());
  EXPECT_TRUE(door.Add(b.fds[0], "10.0.0.1").ok());
  EXPECT_EQ(ReasonOf(door.Add(c.fds[0], "10.0.0.1")), ErrorReason::kQueueFull);
  EXPECT_TRUE(door.Add(c.fds[0], "10.0.0.2").ok());
  EXPECT_EQ(ReasonOf(door.Add(d.fds[0], "10.0.0.3")), ErrorReason::kQueueFull);
  a.Close();
  EXPECT_TRUE(door.Add(d.fds[0], "10.0.0.1").ok());
}

TEST(OpenConnections, ADescriptorThatIsAnotherSocketByNowIsNotTheOld) {
  OpenConnections door({.all = 1, .of_a_peer = 1});
  Pair a, b, c;
  EXPECT_TRUE(door.Add(a.fds[0], "x").ok());
  // The number goes on, as the kernel gives it away: to a socket of somebody else.
  ASSERT_EQ(dup2(b.fds[0], a.fds[0]), a.fds[0]);
  EXPECT_TRUE(door.Add(c.fds[0], "x").ok());
}

TEST(OpenConnections, DescriptorsAreLeftForTheRestOfTheDaemon) {
  EXPECT_EQ(LimitsForDescriptors(1024).all, 256);
  EXPECT_EQ(LimitsForDescriptors(1 << 20).all, 16384);
  EXPECT_GT(LimitsForDescriptors(100).of_a_peer, 0);
}

// kilnd as a process of its own, started with limits of descriptors.
class KilndWithLimits {
 public:
  explicit KilndWithLimits(const std::string& ulimit)
      : child_(*Child::Start(
            {.program = "/bin/sh",
             .args = {"-c", absl::StrCat(ulimit, "; exec \"$@\""), "sh",
                      std::filesystem::absolute("server/kilnd"), "--socket",
                      socket(), "--data-folder", folder_.path() + "/data",
                      "--worker",
                      std::filesystem::absolute("tests/support/fake_worker"),
                      "--workers", "1"},
             .output_file = folder_.path() + "/out"})) {
    // It is the start that is waited for.
    while (AskHealth(absl::StrCat("unix:", socket())) != "SERVING") {
    }
  }
  std::string socket() const { return absl::StrCat(folder_.path(), "/sock"); }

 private:
  const ShortFolder folder_;
  Child child_;
};

// Another client, with a connection of its own, that asked who the daemon is.
std::shared_ptr<grpc::Channel> AnotherClient(const std::string& socket) {
  auto channel = OpenDaemonChannel({.socket = socket});
  if (!channel.ok()) return nullptr;
  grpc::ClientContext context;
  SetDeadline(context, SteadyIn(absl::Seconds(60)));
  wire::DescribeReply reply;
  const grpc::Status said =
      wire::CompileService::NewStub(*channel)->Describe(&context, {}, &reply);
  return said.ok() ? *channel : nullptr;
}

// This process holds the other ends.
void RaiseOwnLimit() {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(Connections, DescriptorsDoNotRunOutAtAThousandClients) {
  RaiseOwnLimit();
  // What a login shell gives; 402df7b stopped here.
  KilndWithLimits kilnd("ulimit -S -n 1024");
  std::vector<std::shared_ptr<grpc::Channel>> clients;
  for (int i = 0; i < 1200; ++i) {
    clients.push_back(AnotherClient(kilnd.socket()));
    ASSERT_NE(clients.back(), nullptr) << i;
  }
  TestClient one_more(kilnd.socket());
  EXPECT_TRUE(one_more.Compile(FakeRequest({"fake.salt.a"})).status.ok());
}

TEST(Connections, BeyondWhatDescriptorsAllowClientsAreSentAwayAndJobsGoOn) {
  RaiseOwnLimit();
  // Room for (600 - 512) / 2.
  KilndWithLimits kilnd("ulimit -n 600");
  TestClient first(kilnd.socket());
  EXPECT_TRUE(first.Compile(FakeRequest({"fake.salt.a"})).status.ok());
  std::vector<std::shared_ptr<grpc::Channel>> clients;
  while (const auto next = AnotherClient(kilnd.socket())) {
    clients.push_back(next);
    ASSERT_LT(clients.size(), 100u);
  }
  EXPECT_GT(clients.size(), 30u);
  EXPECT_TRUE(first.Compile(FakeRequest({"fake.salt.b"})).status.ok());
  // One that leaves makes room. The daemon sees it some time later.
  clients.clear();
  while (AnotherClient(kilnd.socket()) == nullptr) {
  }
}

// A plain connection from an address of the loopback network, which has said
// something.
int ConnectFrom(const char* address, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own = {}, daemon = {};
  own.sin_family = daemon.sin_family = AF_INET;
  inet_pton(AF_INET, address, &own.sin_addr);
  inet_pton(AF_INET, "127.0.0.1", &daemon.sin_addr);
  daemon.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&daemon), sizeof(daemon)),
            0);
  EXPECT_EQ(send(fd, "P", 1, MSG_NOSIGNAL), 1);
  return fd;
}

// Whether the daemon speaks HTTP/2, or hangs up.
bool IsTaken(int fd) {
  char byte = 0;
  return recv(fd, &byte, 1, MSG_PEEK) == 1;
}

TEST(Connections, OneAddressTakesAQuarterOfTheNetworksDoorAtMost) {
  RaiseOwnLimit();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = 600;  // of the daemon's, which is this process
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  TestDaemon d([](Config& config) {
    config.tcp = "127.0.0.1:0";
    config.tcp_plain = true;
  });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const int port = d.daemon().tcp_port();
  std::vector<int> fds;
  for (int i = 0; i < 11; ++i) {
    fds.push_back(ConnectFrom("127.0.0.1", port));
    EXPECT_TRUE(IsTaken(fds.back())) << i;
  }
  fds.push_back(ConnectFrom("127.0.0.1", port));
  EXPECT_FALSE(IsTaken(fds.back()));
  EXPECT_EQ(d.count(Count::kPeersTooMany), 1);
  fds.push_back(ConnectFrom("127.0.0.2", port));
  EXPECT_TRUE(IsTaken(fds.back()));
  for (const int fd : fds) close(fd);
}

}  // namespace
}  // namespace kiln

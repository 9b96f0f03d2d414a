// Callers that take no answers: raw frames of HTTP/2 to a daemon's doors, with no room
// for a byte of a message.
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "proto/cache_service.pb.h"
#include "server/admin_service.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/loopback.h"
#include "tests/support/raw_http2.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

constexpr char kCompile[] = "/kiln.wire.CompileService/Compile";
constexpr char kLookup[] = "/kiln.wire.CompileService/Lookup";
constexpr char kDescribe[] = "/kiln.wire.CompileService/Describe";
constexpr char kSocket[] = "Socket";
constexpr char kNetwork[] = "Network";

int ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

int ConnectTo(int port) {
  const sockaddr_in address = LoopbackAddress(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

// What this process has allocated; 0 under the sanitizers.
int64_t AllocatedBytes() {
  const struct mallinfo2 now = mallinfo2();
  return static_cast<int64_t>(now.uordblks + now.hblkhd);
}

// Hits of as many calls as share one artifact, of which the memory tier holds so much.
class SharedHits : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(MemoryTier, SharedHits,
                         testing::Values(0, 64 << 10, 16 << 20));

TEST_P(SharedHits, OfCompileAndLookupAreOneBuffer) {
  constexpr int kCalls = 128;
  constexpr int64_t kArtifactBytes = 1 << 20;
  TestDaemon d([](Config& config) { config.memory_tier_bytes = GetParam(); });
  const wire::CompileRequest request = FakeRequest({"fake.build_pad.1048576"});
  const CompileAnswer made = d.client().Compile(request);
  ASSERT_TRUE(made.status.ok()) << made.status;
  ASSERT_GE(made.result.artifact().artifact().size(), kArtifactBytes);
  const std::pair<const char*, std::string> calls[] = {
      {kCompile, request.SerializeAsString()},
      {kLookup, LookupFor(request).SerializeAsString()}};
  for (const auto& [path, message] : calls) {
    const int64_t before = AllocatedBytes();
    RawHttp2 caller(ConnectTo(d.config().socket));
    const int64_t hits = d.count(Count::kCacheHits);
    for (int i = 0; i < kCalls; ++i) caller.Call(path, message);
    while (d.count(Count::kCacheHits) < hits + kCalls)
      absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(caller.open_calls(), kCalls);
    // Copies would be the calls' number of artifacts.
    EXPECT_LT(AllocatedBytes() - before, kCalls * kArtifactBytes / 4) << path;
  }
}

// Calls of one caller, whose door is the test's parameter.
class UnreadAtADoor : public testing::TestWithParam<const char*> {
 protected:
  template <typename Change>
  void Start(Change change) {
    d_ = std::make_unique<TestDaemon>([&](Config& config) {
      config.tcp = "127.0.0.1:0";
      config.tcp_plain = true;
      change(config);
    });
    const CompileAnswer made = d_->client().Compile(request_);
    ASSERT_TRUE(made.status.ok()) << made.status;
  }
  int Connect() {
    return GetParam() == kNetwork ? ConnectTo(d_->daemon().tcp_port())
                                  : ConnectTo(d_->config().socket);
  }
  // Begins that many calls, of which the daemon ends so many.
  void Call(RawHttp2& caller, const char* path,
            const google::protobuf::Message& message, int calls, int ended) {
    for (int i = 0; i < calls; ++i)
      caller.Call(path, message.SerializeAsString());
    caller.AwaitEnded(ended);
    EXPECT_EQ(caller.ended_calls(), ended) << path;
    EXPECT_EQ(caller.open_calls(), calls - ended) << path;
  }

  // Its artifact has a little more than 1 MiB.
  const wire::CompileRequest request_ = FakeRequest({"fake.build_pad.1048576"});
  std::unique_ptr<TestDaemon> d_;
};
INSTANTIATE_TEST_SUITE_P(Doors, UnreadAtADoor,
                         testing::Values(kSocket, kNetwork),
                         [](const auto& door) { return door.param; });

TEST_P(UnreadAtADoor, ACallerHasItsShareOfPlaces) {
  constexpr int kPlaces = 64;
  constexpr int kCalls = 100;
  Start([](Config& config) { config.max_lookups = kPlaces; });
  for (const char* path : {kLookup, kDescribe}) {
    {
      RawHttp2 caller(Connect());
      Call(caller, path, LookupFor(request_), kCalls, kCalls - kPlaces / 2);
    }
    // What was held goes with the connection.
    while (!d_->client().Lookup(LookupFor(request_)).ok())
      absl::SleepFor(absl::Milliseconds(10));
  }
}

TEST_P(UnreadAtADoor, ACallerHasItsShareOfTheAnswersBytes) {
  constexpr int kCalls = 20;
  Start([](Config& config) { config.max_answer_bytes = 8 << 20; });
  for (const char* path : {kLookup, kCompile}) {
    RawHttp2 caller(Connect());
    // Four of them have more than half.
    if (path == kLookup) {
      Call(caller, path, LookupFor(request_), kCalls, kCalls - 4);
    } else {
      Call(caller, path, request_, kCalls, kCalls - 4);
    }
  }
}

TEST_P(UnreadAtADoor, ALookupThatIsNotTakenIsCancelled) {
  constexpr int kCalls = 20;
  Start([](Config& config) { config.write_timeout = absl::Seconds(1); });
  for (const char* path : {kLookup, kDescribe}) {
    const int64_t before = d_->count(Count::kCallsUnread);
    RawHttp2 caller(Connect());
    Call(caller, path, LookupFor(request_), kCalls, kCalls);
    EXPECT_EQ(d_->count(Count::kCallsUnread), before + kCalls);
  }
}

// Where other daemons and admins call too.
TEST(UnreadAtTheSocket, AnAnswerOfAnyServiceThatIsNotTakenIsCancelled) {
  constexpr int kCalls = 8;  // an admin's share
  TestDaemon d([](Config& config) { config.write_timeout = absl::Seconds(1); });
  wire::HintsRequest hints;
  hints.set_key(std::string(32, 'k'));
  wire::EraseRecordRequest erase;
  erase.mutable_name()->set_key(std::string(32, 'k'));
  const std::pair<const char*, std::string> calls[] = {
      {"/kiln.wire.CacheService/Hints", hints.SerializeAsString()},
      {"/kiln.wire.CacheService/Erase", erase.SerializeAsString()},
      {"/kiln.wire.AdminService/Stats", ""}};
  for (const auto& [path, request] : calls) {
    const int64_t before = d.count(Count::kCallsUnread);
    RawHttp2 caller(ConnectTo(d.config().socket));
    for (int i = 0; i < kCalls; ++i) caller.Call(path, request);
    caller.AwaitEnded(kCalls);
    EXPECT_EQ(caller.ended_calls(), kCalls) << path;
    EXPECT_EQ(d.count(Count::kCallsUnread), before + kCalls) << path;
  }
}

TEST(UnreadAtTheSocket, AnAdminsAnswersHoldNoPlaceOfThoseAtWork) {
  TestDaemon d([](Config& config) { config.write_timeout = absl::Hours(1); });
  RawHttp2 caller(ConnectTo(d.config().socket));
  // As many as one caller may have at work.
  for (int64_t i = 0; i < kMostAdminCalls / 2; ++i)
    caller.Call("/kiln.wire.AdminService/Stats", "");
  // The same user's, on another connection: once those are answered.
  grpc::Status status;
  do {
    grpc::ClientContext context;
    wire::StatsReply reply;
    status = AdminStub(d.client())->Stats(&context, {}, &reply);
  } while (!status.ok());
  EXPECT_EQ(caller.ended_calls(), 0);
}

TEST(UnreadAtTheSocket, AnAdminHasItsShareOfTheAnswersBytes) {
  constexpr int kCalls = 8;
  TestDaemon d([](Config& config) { config.max_answer_bytes = 8 << 20; });
  // Its artifact has a little more than 1 MiB.
  const CompileAnswer made =
      d.client().Compile(FakeRequest({"fake.build_pad.1048576"}));
  ASSERT_TRUE(made.status.ok()) << made.status;
  wire::ShowRequest show;
  show.set_key_prefix_hex(absl::BytesToHexString(made.result.compile_key()));
  RawHttp2 caller(ConnectTo(d.config().socket));
  for (int i = 0; i < kCalls; ++i)
    caller.Call("/kiln.wire.AdminService/Show", show.SerializeAsString());
  // Four of them have more than half; the others end at once.
  caller.AwaitEnded(kCalls - 4);
  EXPECT_EQ(caller.ended_calls(), kCalls - 4);
  EXPECT_EQ(caller.open_calls(), 4);
}

TEST_P(UnreadAtADoor, WhoResetsCallsWithoutEndIsEnded) {
  Start([](Config&) {});
  constexpr size_t kBatchBytes = 8 << 10;
  const int64_t refused = d_->count(Count::kPeersRefused);
  const int fd = Connect();
  std::string bytes = Http2Start();
  for (uint32_t call = 0; d_->count(Count::kPeersRefused) == refused;) {
    if (bytes.size() < kBatchBytes) {
      bytes += ResetCall(call % 2 == 0 ? kLookup : kCompile, call);
      ++call;
      continue;
    }
    // It fails once the daemon has ended the connection, which it then counts.
    const ssize_t sent =
        send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    bytes.erase(0, std::max<ssize_t>(sent, 0));
    // What the daemon says is taken, also while it reads nothing: it has no other
    // reason to end anything.
    char said[4096];
    while (recv(fd, said, sizeof(said), MSG_DONTWAIT) > 0) {
    }
  }
  EXPECT_EQ(d_->count(Count::kPeersRefused), refused + 1);
  close(fd);
  // This user owns the daemon: at the socket it may connect again.
  if (GetParam() == kSocket) {
    // Its share may be taken by calls of the old one that are still being ended.
    while (!d_->client().Lookup(LookupFor(request_)).ok())
      absl::SleepFor(absl::Milliseconds(10));
    EXPECT_EQ(d_->count(Count::kPeersTooOften), 0);
  } else {
    close(Connect());
    while (d_->count(Count::kPeersTooOften) == 0)
      absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace
}  // namespace kiln

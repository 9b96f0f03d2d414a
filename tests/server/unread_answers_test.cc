// Callers that take no answers: raw frames of HTTP/2 to a daemon's socket, with no
// room for a byte of a message.
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/raw_http2.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

constexpr char kCompile[] = "/kiln.wire.CompileService/Compile";

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

// What this process has allocated; 0 under the sanitizers.
int64_t AllocatedBytes() {
  const struct mallinfo2 now = mallinfo2();
  return static_cast<int64_t>(now.uordblks + now.hblkhd);
}

TEST(UnreadAnswers, OfCompileHitsShareTheArtifact) {
  constexpr int kCalls = 128;
  constexpr int64_t kArtifactBytes = 1 << 20;
  TestDaemon d;
  const wire::CompileRequest request = FakeRequest({"fake.build_pad.1048576"});
  const CompileAnswer made = d.client().Compile(request);
  ASSERT_TRUE(made.status.ok()) << made.status;
  ASSERT_GE(made.result.artifact().artifact().size(), kArtifactBytes);

  const int64_t before = AllocatedBytes();
  RawHttp2 caller(ConnectTo(d.config().socket));
  const int64_t hits = d.count(Count::kCacheHits);
  for (int i = 0; i < kCalls; ++i)
    caller.Call(kCompile, request.SerializeAsString());
  while (d.count(Count::kCacheHits) < hits + kCalls && !HasFailure())
    caller.SendAll();
  EXPECT_EQ(caller.open_calls(), kCalls);
  // Copies would be the calls' number of artifacts.
  EXPECT_LT(AllocatedBytes() - before, kCalls * kArtifactBytes / 4);
}

}  // namespace
}  // namespace kiln

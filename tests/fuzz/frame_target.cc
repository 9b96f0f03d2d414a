// What a worker that was taken over writes to the daemon: bytes as they are, and
// the same as the payload of a sound frame.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/frame.h"
#include "proto/base/work_error.h"
#include "proto/worker.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {
namespace {

// What fits into a socket's buffer, so that one thread can be both ends.
constexpr size_t kMostBytes = 1 << 15;

void ReadAll(int fd) {
  while (true) {
    const auto frame = ReadFrame(fd, {.max_bytes = kMostBytes});
    if (!frame.ok()) return;
    wire::WorkReply reply;
    if (reply.ParseFromString(*frame) && reply.has_error())
      static_cast<void>(StatusOf(reply.error()));
  }
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  wire::WorkReply error;
  *error.mutable_error() = WorkErrorOf(absl::InternalError("k0 is missing"));
  wire::WorkReply hello;
  hello.mutable_hello()->set_build_identity(std::string(32, 'b'));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return {};
  std::vector<std::string> seeds = {error.SerializeAsString(),
                                    hello.SerializeAsString()};
  char bytes[4096];
  if (WriteFrame(ends[0], seeds[0]).ok()) {
    const ssize_t got = read(ends[1], bytes, sizeof(bytes));
    seeds.emplace_back(bytes, got > 0 ? got : 0);
  }
  close(ends[0]);
  close(ends[1]);
  return seeds;
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  if (size > kMostBytes) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  static_cast<void>(WriteFrame(ends[0], FuzzText(data, size)));
  static_cast<void>(send(ends[0], data, size, MSG_DONTWAIT | MSG_NOSIGNAL));
  close(ends[0]);
  ReadAll(ends[1]);
  close(ends[1]);
  return 0;
}

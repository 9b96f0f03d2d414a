#include "proto/base/frame.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// Both ends of a socketpair; closed at the end unless closed before.
class Pair {
 public:
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0); }
  ~Pair() {
    CloseFirst();
    close(fds_[1]);
  }
  int first() const { return fds_[0]; }
  int second() const { return fds_[1]; }
  void CloseFirst() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  void Send(absl::string_view bytes) {
    ASSERT_EQ(write(fds_[0], bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fds_[2] = {-1, -1};
};

// The bytes of one frame on the wire.
std::string FrameBytes(absl::string_view payload) {
  Pair pair;
  EXPECT_TRUE(WriteFrame(pair.first(), payload).ok());
  std::string bytes(16 + payload.size(), '\0');
  EXPECT_EQ(read(pair.second(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  return bytes;
}

TEST(Frame, WhatIsWrittenIsRead) {
  Pair pair;
  for (const std::string payload : {"", "x", "hello"}) {
    ASSERT_TRUE(WriteFrame(pair.first(), payload).ok());
    const auto read = ReadFrame(pair.second());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, payload);
  }
}

TEST(Frame, AFrameLargerThanTheSocketsBufferArrivesWhole) {
  Pair pair;
  const std::string large(9 << 20, 'k');
  std::thread writer(
      [&] { EXPECT_TRUE(WriteFrame(pair.first(), large).ok()); });
  const auto read = ReadFrame(pair.second());
  writer.join();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, large);
}

TEST(Frame, APeerThatClosesBetweenFramesIsUnavailable) {
  Pair pair;
  pair.CloseFirst();
  EXPECT_EQ(ReadFrame(pair.second()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(WriteFrame(pair.second(), "x").code(),
            absl::StatusCode::kUnavailable);
}

TEST(Frame, EveryCutIsDataLoss) {
  const std::string frame = FrameBytes("payload");
  for (size_t length = 1; length < frame.size(); ++length) {
    Pair pair;
    pair.Send(frame.substr(0, length));
    pair.CloseFirst();
    EXPECT_EQ(ReadFrame(pair.second()).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  }
}

TEST(Frame, EveryFlippedBitIsFound) {
  const std::string frame = FrameBytes("payload");
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    Pair pair;
    pair.Send(flipped);
    pair.CloseFirst();
    const auto read = ReadFrame(pair.second(), {.max_bytes = 1024});
    EXPECT_FALSE(read.ok()) << bit;
  }
}

TEST(Frame, OneOverTheLimitIsRefusedOnBothSides) {
  Pair pair;
  const FrameOptions small = {.max_bytes = 4};
  EXPECT_EQ(ReasonOf(WriteFrame(pair.first(), "12345", small)),
            ErrorReason::kTooLarge);
  ASSERT_TRUE(WriteFrame(pair.first(), "12345").ok());
  EXPECT_EQ(ReasonOf(ReadFrame(pair.second(), small).status()),
            ErrorReason::kTooLarge);
}

TEST(Frame, ASilentPeerIsLeftAtTheDeadline) {
  Pair pair;
  const FrameOptions now = {.deadline = SteadyNow()};
  EXPECT_EQ(ReadFrame(pair.second(), now).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const std::string large(9 << 20, 'k');
  EXPECT_EQ(WriteFrame(pair.first(), large, now).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(Frame, ABadDescriptorIsTheSystemsError) {
  EXPECT_EQ(ReadFrame(-1).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(WriteFrame(-1, "x").code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace kiln

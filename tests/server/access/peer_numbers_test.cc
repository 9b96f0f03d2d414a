// Whose a descriptor's number is, and how long.
#include "server/access/peer_numbers.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"

namespace kiln {
namespace {

int OpenSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

TEST(PeerNumbers, ANumberIsOneUsersAndNoOthers) {
  FakeClock clock;
  PeerNumbers peers(clock);
  const int first = OpenSocket();
  ASSERT_EQ(*peers.Bind(first, 1000), first);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", first)), 1000u);
  close(first);
  // The kernel gives the lowest free number: the one that was closed.
  const int second = OpenSocket();
  ASSERT_EQ(second, first);
  const auto moved = peers.Bind(second, 1001);
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_NE(*moved, first);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", *moved)), 1001u);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", first)), 1000u);
  EXPECT_EQ(fcntl(first, F_GETFD), -1);
  EXPECT_EQ(fcntl(*moved, F_GETFD), FD_CLOEXEC);
  // The first user's number is the first user's again.
  const int third = OpenSocket();
  ASSERT_EQ(third, first);
  EXPECT_EQ(*peers.Bind(third, 1000), first);
  close(third);
  close(*moved);
}

TEST(PeerNumbers, ANumberIsAnybodysTenMinutesAfterItsEnd) {
  FakeClock clock;
  PeerNumbers peers(clock);
  const int open = OpenSocket();
  ASSERT_EQ(*peers.Bind(open, 1000), open);
  const int first = OpenSocket();
  ASSERT_EQ(*peers.Bind(first, 1000), first);
  close(first);
  // Whoever connects next has it found closed, and ten minutes later forgotten.
  const auto next = [&peers](uid_t user) {
    const absl::StatusOr<int> number = peers.Bind(OpenSocket(), user);
    EXPECT_TRUE(number.ok()) << number.status();
    close(*number);
    return *number;
  };
  clock.Advance(absl::Minutes(1));
  EXPECT_NE(next(1001), first);
  clock.Advance(PeerNumbers::kKept - absl::Seconds(1));
  EXPECT_NE(next(1001), first);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", first)), 1000u);
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(next(1001), first);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", first)), 1001u);
  // One that is open stays its user's, however long.
  clock.Advance(absl::Hours(24 * 365));
  next(1002);
  EXPECT_EQ(peers.UserOf(absl::StrCat("fd:", open)), 1000u);
  close(open);
}

TEST(PeerNumbers, AThousandUsersLeaveNothingBehind) {
  FakeClock clock;
  PeerNumbers peers(clock);
  for (uid_t user = 0; user < 1000; ++user) {
    const absl::StatusOr<int> number = peers.Bind(OpenSocket(), user);
    ASSERT_TRUE(number.ok()) << user << ": " << number.status();
    close(*number);
    clock.Advance(absl::Minutes(1));
  }
  // A connection a minute, of which each number is kept for some eleven.
  EXPECT_LE(peers.known(), 13u);
}

TEST(PeerNumbers, NamesOfOtherPeersAreNobodys) {
  FakeClock clock;
  PeerNumbers peers(clock);
  for (const char* peer : {"", "fd:", "fd:x", "fd:7", "ipv4:127.0.0.1:7"})
    EXPECT_EQ(peers.UserOf(peer), std::nullopt) << peer;
}

}  // namespace
}  // namespace kiln

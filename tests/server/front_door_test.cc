#include "server/front_door.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/support/health_client.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

struct Door {
  explicit Door(uid_t allowed_uid = getuid(), bool stale_file = false) {
    if (stale_file) {
      const sockaddr_un address = AddressOf(path);
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)),
                0);
      close(fd);
    }
    auto socket = ListenSocket::Open(path);
    EXPECT_TRUE(socket.ok()) << socket.status();
    FrontDoorOptions options = {.socket = path,
                                .allowed_uid = allowed_uid,
                                .max_message_bytes = 1 << 20};
    auto opened = FrontDoor::Open(
        options, std::make_unique<ListenSocket>(*std::move(socket)), {},
        counters);
    EXPECT_TRUE(opened.ok()) << opened.status();
    door = *std::move(opened);
    door->SetServing(true);
  }

  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  Counters counters;
  std::unique_ptr<FrontDoor> door;
};

TEST(FrontDoor, AnOwnersCallGoesThroughTheSocket) {
  Door d;
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
  EXPECT_EQ(d.counters.Get(Count::kPeersAccepted), 1);
  d.door->SetServing(false);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "NOT_SERVING");
}

TEST(FrontDoor, TheSocketIsItsOwnersAlone) {
  Door d;
  struct stat info = {};
  ASSERT_EQ(stat(d.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(FrontDoor, AnotherUsersConnectionIsClosedAndCounted) {
  Door d(/*allowed_uid=*/getuid() + 1);
  EXPECT_TRUE(
      absl::StartsWith(AskHealth(absl::StrCat("unix:", d.path)), "error 14"));
  EXPECT_EQ(d.counters.Get(Count::kPeersAccepted), 0);
  EXPECT_GE(d.counters.Get(Count::kPeersRefused), 1);
}

TEST(FrontDoor, BytesThatAreNoGrpcHurtNobody) {
  Door d;
  const sockaddr_un address = AddressOf(d.path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  const std::string garbage(4096, 'x');
  EXPECT_GT(send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  char answer[256];
  while (read(fd, answer, sizeof(answer)) > 0) {
  }
  close(fd);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ASecondDaemonOnTheSocketIsRefusedByItsPath) {
  Door d;
  const auto second = ListenSocket::Open(d.path);
  EXPECT_EQ(ReasonOf(second.status()), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(second.status().message(), d.path));
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ADaemonThatIsRefusedTheSocketLeavesTheOthersLock) {
  Door d;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ReasonOf(ListenSocket::Open(d.path).status()),
              ErrorReason::kStorage);
  }
}

TEST(FrontDoor, ASocketFileThatAKilledDaemonLeftIsReplaced) {
  Door d(getuid(), /*stale_file=*/true);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ShuttingRemovesTheSocket) {
  Door d;
  d.door->Shut(absl::ZeroDuration());
  EXPECT_NE(access(d.path.c_str(), F_OK), 0);
}

TEST(FrontDoor, AnAddressThatIsNoneIsRefused) {
  Counters counters;
  const auto opened = FrontDoor::Open(
      {.tcp = "nonsense", .max_message_bytes = 1 << 20}, nullptr, {}, counters);
  EXPECT_EQ(ReasonOf(opened.status()), ErrorReason::kBadOption);
}

TEST(FrontDoor, TcpServesWhereItIsConfigured) {
  Counters counters;
  const auto opened =
      FrontDoor::Open({.tcp = "127.0.0.1:0", .max_message_bytes = 1 << 20},
                      nullptr, {}, counters);
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetServing(true);
  EXPECT_EQ(AskHealth(absl::StrCat("127.0.0.1:", (*opened)->tcp_port())),
            "SERVING");
}

}  // namespace
}  // namespace kiln

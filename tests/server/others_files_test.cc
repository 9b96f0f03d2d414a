// A daemon that is told to listen, or to keep its data, where others' files lie.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "server/daemon.h"
#include "server/listen_socket.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_daemon.h"

namespace kiln {
namespace {

TEST(OthersFiles, WhatIsNotItsOwnStaysAsItIs) {
  const ShortFolder folder;
  const std::string notes = folder.path() + "/notes.txt";
  std::ofstream(notes) << "precious";
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  Config config;
  {
    const TestDaemon d;
    config = d.config();
  }
  config.socket = notes;
  const auto no_socket = Daemon::Start(config, geteuid());
  EXPECT_TRUE(absl::StrContains(no_socket.status().message(),
                                "found a file that is not a socket"))
      << no_socket.status();
  config.socket = folder.path() + "/sock";
  config.data_folder = folder.path();
  const auto no_folder = Daemon::Start(config, geteuid());
  EXPECT_TRUE(absl::StrContains(no_folder.status().message(),
                                "contains files of another program"))
      << no_folder.status();
  std::ifstream in(notes);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious");
  struct stat info = {};
  ASSERT_EQ(stat(folder.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
}

// A daemon starts in a folder where there is a file `name`.
void ExpectStartsBeside(const std::string& name) {
  TestDaemon d;
  d.Stop();
  Config config = d.config();
  const ShortFolder folder;
  std::ofstream(folder.path() + "/" + name) << "no daemon wrote this";
  config.data_folder = folder.path();
  const auto started = Daemon::Start(config, geteuid());
  EXPECT_TRUE(started.ok()) << started.status();
}

TEST(OthersFiles, WhatAFirstStartThatWasCutShortLeftIsItsOwn) {
  ExpectStartsBeside("signing.key.1");
}

TEST(OthersFiles, TheLogOfTheProgramThatStartsItIsNone) {
  ExpectStartsBeside("kilnd.log");
}

TEST(OthersFiles, ASocketThatAnotherProgramListensOnIsLeftToIt) {
  const ShortFolder folder;
  const std::string path = folder.path() + "/other";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  ASSERT_EQ(listen(fd, 1), 0);
  const auto refused = ListenSocket::Open(path);
  EXPECT_TRUE(absl::StrContains(refused.status().message(),
                                "another program listens on"))
      << refused.status();
  close(fd);
  EXPECT_TRUE(ListenSocket::Open(path).ok());
}

}  // namespace
}  // namespace kiln

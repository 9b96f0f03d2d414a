// A daemon that is told to listen, or to keep its data, where others' files lie.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "server/access/audit_log.h"
#include "server/access/token_store.h"
#include "server/daemon.h"
#include "server/data_folder.h"
#include "server/key_store.h"
#include "server/listen_socket.h"
#include "server/signer.h"
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

TEST(OthersFiles, ItsOwnSocketMayLieInItsDataFolder) {
  TestDaemon d;
  d.Stop();
  const ShortFolder folder;
  Config config = d.config();
  config.data_folder = folder.path();
  config.socket = folder.path() + "/x.sock";
  for (int i = 0; i < 2; ++i) {
    const auto started = Daemon::Start(config, geteuid());
    ASSERT_TRUE(started.ok()) << started.status();
    EXPECT_TRUE(std::filesystem::exists(config.socket));
  }
  // Files of those names are another program's where the socket is elsewhere.
  const ShortFolder others, elsewhere;
  std::ofstream(others.path() + "/x.sock") << "a file";
  EXPECT_EQ(
      ReasonOf(
          TakeDataFolder(others.path(), elsewhere.path() + "/x.sock").status()),
      ErrorReason::kBadOption);
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

// Only root makes files of others; who is not root opens no folder of theirs.
constexpr uid_t kNobody = 65534;

TEST(OthersFiles, ADataFolderOfAnotherUserIsRefusedWithItsKeyAndItsLinks) {
  if (geteuid() != 0) {
    EXPECT_EQ(ReasonOf(TakeDataFolder("/etc").status()),
              ErrorReason::kPermission);
    return;
  }
  const ShortFolder folder;
  const std::string data = folder.path() + "/data";
  ASSERT_EQ(mkdir(data.c_str(), 0777), 0);
  const std::string key = data + "/signing.key";
  const std::string link = data + "/records";
  std::ofstream(key) << std::string(32, 'k');
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  ASSERT_EQ(symlink(folder.path().c_str(), link.c_str()), 0);
  // All of it, then what was put into a folder of ours.
  for (const std::string& path : {data, key, link}) {
    ASSERT_EQ(lchown(path.c_str(), kNobody, kNobody), 0);
    const absl::Status refused = TakeDataFolder(data).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << path;
    EXPECT_TRUE(absl::StrContains(refused.message(), "belongs to user 65534"))
        << refused;
    ASSERT_EQ(lchown(path.c_str(), 0, 0), 0);
  }
  const auto taken = TakeDataFolder(data);
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(chown(key.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(ReasonOf(LoadOrMakeSigningKey(*taken, "signing.key").status()),
            ErrorReason::kPermission);
}

// Its owner would choose where a daemon keeps its data.
TEST(OthersFiles, ADataFolderBehindALinkOfAnotherUserIsRefused) {
  if (geteuid() != 0) return;  // as above
  const ShortFolder folder;
  const std::string data = folder.path() + "/data";
  const std::string link = folder.path() + "/link";
  const std::string way = folder.path() + "/way";
  const std::string to_link = folder.path() + "/to_link";
  ASSERT_EQ(mkdir(data.c_str(), 0700), 0);
  ASSERT_EQ(symlink("./data", link.c_str()), 0);
  ASSERT_EQ(symlink(folder.path().c_str(), way.c_str()), 0);
  const std::string name =
      std::filesystem::path(folder.path()).filename().string();
  ASSERT_EQ(symlink(absl::StrCat("way/../", name, "/./link").c_str(),
                    to_link.c_str()),
            0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {link, link},             // itself
      {link + "/new", link},    // before a folder that would be made
      {way + "/data", way},     // a parent
      {to_link, link},          // where a link of ours leads
      {way + "/to_link", way},  // and on the way there
  };
  for (const auto& [path, others] : cases) {
    EXPECT_TRUE(TakeDataFolder(path).ok()) << path;
    ASSERT_EQ(lchown(others.c_str(), kNobody, kNobody), 0);
    const absl::Status refused = TakeDataFolder(path).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << path;
    EXPECT_TRUE(absl::StrContains(
        refused.message(), absl::StrCat("data folder ", path, ": the link ",
                                        others, " belongs to user 65534")))
        << refused;
    ASSERT_EQ(lchown(others.c_str(), 0, 0), 0);
    std::filesystem::remove(data + "/new");
  }
}

TEST(OthersFiles, ALinkOfAnotherUserLeadsToNoNewDataFolder) {
  if (geteuid() != 0) return;  // as above
  const ShortFolder folder;
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(symlink(folder.path().c_str(), link.c_str()), 0);
  ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(ReasonOf(TakeDataFolder(link + "/data").status()),
            ErrorReason::kPermission);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/data"));
}

// Its owner could swap the data folder for another while the daemon runs, and with
// it the tokens and keys that were revoked.
TEST(OthersFiles, ADataFolderInAFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) return;  // as above
  const ShortFolder folder;
  const std::string theirs = folder.path() + "/theirs";
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(mkdir(theirs.c_str(), 0755), 0);
  ASSERT_EQ(mkdir((theirs + "/data").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((theirs + "/ours").c_str(), 0755), 0);
  ASSERT_EQ(symlink((theirs + "/data").c_str(), link.c_str()), 0);
  ASSERT_EQ(chown(theirs.c_str(), kNobody, kNobody), 0);
  for (const std::string& path :
       {theirs + "/data", theirs + "/new", theirs + "/ours/new",
        theirs + "/../new", link}) {
    const absl::Status refused = TakeDataFolder(path).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << path;
    EXPECT_TRUE(absl::StrContains(
        refused.message(),
        absl::StrCat("data folder ", path, ": others could put another in its ",
                     "place, since ", theirs, " is owned by user 65534")))
        << refused;
  }
  for (const char* made : {"/theirs/new", "/theirs/ours/new", "/new"})
    EXPECT_FALSE(std::filesystem::exists(folder.path() + made)) << made;
  ASSERT_EQ(chown(theirs.c_str(), 0, 0), 0);
  EXPECT_TRUE(TakeDataFolder(link).ok());
}

TEST(OthersFiles, ADataFolderInAFolderThatOthersMayWriteIsRefused) {
  const ShortFolder folder;
  const std::string open = folder.path() + "/open";
  ASSERT_EQ(mkdir(open.c_str(), 0700), 0);
  for (const mode_t mode : {0777, 0757}) {
    ASSERT_EQ(chmod(open.c_str(), mode), 0);
    const absl::Status refused = TakeDataFolder(open + "/a/data").status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kPermission) << mode;
    EXPECT_TRUE(absl::StrContains(refused.message(), open + " is mode 07"))
        << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "chmod go-w")) << refused;
    EXPECT_FALSE(std::filesystem::exists(open + "/a"));
  }
  ASSERT_EQ(chmod(open.c_str(), 01777), 0);
  EXPECT_TRUE(TakeDataFolder(open + "/a/data").ok());
}

TEST(OthersFiles, OthersMayNotWriteTheFoldersThatAreMadeForTheData) {
  const ShortFolder folder;
  const std::string data = folder.path() + "/a/b/data";
  const mode_t before = umask(0);
  const absl::Status made = TakeDataFolder(data).status();
  umask(before);
  EXPECT_TRUE(made.ok()) << made;
  EXPECT_TRUE(TakeDataFolder(data).ok());
  struct stat info = {};
  ASSERT_EQ(stat((folder.path() + "/a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
}

// Whoever may do that chooses nothing: what was checked is what is written.
TEST(OthersFiles, AFolderInThePlaceOfTheDataGetsNoKeyAndNoToken) {
  const ShortFolder folder;
  const std::string data = folder.path() + "/data";
  const std::string gone = folder.path() + "/gone";
  const RealClock clock;
  const auto taken = TakeDataFolder(data);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto open_all = [&] {
    return std::tuple(*KeyStore::Open(*taken, {}, clock),
                      *TokenStore::Open(*taken, clock),
                      *AuditLog::Open(*taken, clock));
  };
  const auto [keys, tokens, audit] = open_all();
  const std::string leaked =
      *tokens->Make("leaked", {Role::kReader, {"*"}}, absl::Hours(1));
  const PublicKey before = keys->ring()->SignerOf("")->public_key();
  std::filesystem::rename(data, gone);
  ASSERT_EQ(mkdir(data.c_str(), 0777), 0);

  ASSERT_TRUE(keys->Rotate("team-z").ok());
  ASSERT_TRUE(keys->Revoke(absl::BytesToHexString(before.bytes())).ok());
  keys->KeepList();
  ASSERT_TRUE(tokens->Revoke("leaked").ok());
  std::filesystem::rename(gone + "/audit.log", gone + "/audit.log.1");
  audit->Record("uid:0", "revoke", "token leaked", absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_empty(data));
  for (const char* name : {"signing.key", "signing.team-z.key", "keys",
                           "tokens", "audit.log", "audit.log.1"})
    EXPECT_TRUE(std::filesystem::exists(gone + "/" + name)) << name;

  // Nor does what was revoked come back with the first folder.
  const auto [keys_again, tokens_again, audit_again] = open_all();
  EXPECT_FALSE(tokens_again->CallerOf(leaked).ok());
  EXPECT_FALSE(keys_again->ring()->trusted()->Find(before.key_id()).ok());
  EXPECT_TRUE(std::filesystem::is_empty(data));
}

TEST(OthersFiles, LinksInACircleAreNoDataFolder) {
  const ShortFolder folder;
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(symlink("link", link.c_str()), 0);
  EXPECT_EQ(ReasonOf(TakeDataFolder(link).status()), ErrorReason::kStorage);
}

TEST(OthersFiles, ADaemonTakesNoDataFolderOfAnotherUser) {
  if (geteuid() != 0) return;  // as above
  TestDaemon d;
  d.Stop();
  const std::string data = d.config().data_folder;
  ASSERT_EQ(chown(data.c_str(), kNobody, kNobody), 0);
  const auto refused = Daemon::Start(d.config(), geteuid());
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kPermission);
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

// The program kilnd: its exit codes, its messages, its end by signal.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/free_port.h"
#include "tests/support/health_client.h"
#include "tests/support/raw_tls.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"

namespace kiln {
namespace {

std::string Runfile(const std::string& path) {
  return absl::StrCat(getenv("TEST_SRCDIR"), "/kiln/", path);
}

// kilnd in a folder of its own.
struct Kilnd {
  // A report of a sanitizer is shown, whatever the test looks at.
  ~Kilnd() { EXPECT_FALSE(absl::StrContains(Said(), "Sanitizer: ")) << Said(); }

  std::string socket() const { return absl::StrCat(folder.path(), "/sock"); }

  // With the folder's socket, data and the fake worker, unless `bare`.
  pid_t Start(std::vector<std::string> words, bool bare = false) {
    words.insert(words.begin(), Runfile("server/kilnd"));
    if (!bare) {
      for (const std::string& word :
           {std::string("--socket"), socket(), std::string("--data-folder"),
            absl::StrCat(folder.path(), "/data"), std::string("--worker"),
            Runfile("tests/support/fake_worker"), std::string("--workers"),
            std::string("1")}) {
        words.push_back(word);
      }
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output().c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    EXPECT_EQ(
        posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  static int ExitOf(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string output() const { return absl::StrCat(folder.path(), "/out"); }
  std::string Said() const {
    std::ifstream in(output());
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  // Until the daemon answers; it is the start that is waited for.
  void WaitUntilServing() const {
    while (AskHealth(absl::StrCat("unix:", socket())) != "SERVING") {
    }
  }

  const ShortFolder folder;
};

TEST(KilndMain, EndsByItselfWhenNobodyAsksAndItWasToldTo) {
  Kilnd kilnd;
  const pid_t pid = kilnd.Start({"--idle-exit-s", "1"});
  EXPECT_EQ(Kilnd::ExitOf(pid), 0);
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), "daemon.started"));
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), "daemon.idle"));
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), "drain.done"));
}

TEST(KilndMain, ServesUntilItIsToldToEnd) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Kilnd kilnd;
    const pid_t pid = kilnd.Start({});
    kilnd.WaitUntilServing();
    ASSERT_EQ(kill(pid, signal), 0);
    EXPECT_EQ(Kilnd::ExitOf(pid), 0);
    EXPECT_TRUE(absl::StrContains(kilnd.Said(), "daemon.started"));
    EXPECT_TRUE(absl::StrContains(kilnd.Said(), "drain.done"));
    EXPECT_NE(access(kilnd.socket().c_str(), F_OK), 0);
  }
}

TEST(KilndMain, ASecondOneSaysWhoIsInItsWay) {
  Kilnd kilnd;
  const pid_t first = kilnd.Start({});
  kilnd.WaitUntilServing();
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({})), 3);
  EXPECT_TRUE(absl::StrContains(
      kilnd.Said(), absl::StrCat("socket ", kilnd.socket(), ": another")));
  ASSERT_EQ(kill(first, SIGTERM), 0);
  EXPECT_EQ(Kilnd::ExitOf(first), 0);
}

TEST(KilndMain, OneThatWasKilledIsFollowedByAnother) {
  Kilnd kilnd;
  const pid_t first = kilnd.Start({});
  kilnd.WaitUntilServing();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_EQ(Kilnd::ExitOf(first), -1);
  const pid_t second = kilnd.Start({});
  kilnd.WaitUntilServing();
  ASSERT_EQ(kill(second, SIGTERM), 0);
  EXPECT_EQ(Kilnd::ExitOf(second), 0);
}

TEST(KilndMain, LeavesNoCoreFile) {
  Kilnd kilnd;
  const pid_t pid = kilnd.Start({});
  kilnd.WaitUntilServing();
  rlimit cores = {.rlim_cur = 1, .rlim_max = 1};
  EXPECT_EQ(prlimit(pid, RLIMIT_CORE, nullptr, &cores), 0);
  EXPECT_EQ(cores.rlim_max, 0);
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(Kilnd::ExitOf(pid), 0);
}

TEST(KilndMain, NoStrangerWritesItsLog) {
  constexpr int kTries = 100;
  Kilnd kilnd;
  const std::string& folder = kilnd.folder.path();
  TestCa ca(folder, "ca");
  const TestCa::Files own = ca.Issue("kilnd.example", "kilnd");
  const int port = FreePort();
  const std::string config = absl::StrCat(folder, "/kilnd.toml");
  std::ofstream(config) << "[listen]\ntcp = \"127.0.0.1:" << port
                        << "\"\ntls_certificate = \"" << own.certificate
                        << "\"\ntls_key = \"" << own.key << "\"\n";
  const pid_t pid = kilnd.Start({"--config", config, "--log-format", "json"});
  kilnd.WaitUntilServing();
  // gRPC tells of a name that the daemon's certificate has not.
  for (int i = 0; i < kTries; ++i)
    RawTls stranger(port, absl::StrCat("\xff", i, "\nI forged.line a=b"));
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(Kilnd::ExitOf(pid), 0);
  std::ifstream in(kilnd.output());
  int64_t said = 0;
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    ASSERT_FALSE(event.is_discarded()) << line;
    if (event["event"] == "grpc.said") ++said;
  }
  EXPECT_GT(said, 0);
  // One more tells how many there were, should a minute pass here.
  EXPECT_LT(said, kTries / 2);
}

TEST(KilndMain, CheckConfigPrintsWhatItWouldUse) {
  Kilnd kilnd;
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--check-config"})), 0);
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), kilnd.socket()));
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), "queue_limit = 256"));
}

TEST(KilndMain, CheckConfigReadsTheFilesAsAStartWould) {
  Kilnd kilnd;
  const std::string& folder = kilnd.folder.path();
  TestCa ca(folder, "ca");
  const TestCa::Files own = ca.Issue("kilnd.example", "kilnd");
  const TestCa::Files other = ca.Issue("other.example", "other");
  // What is said of a [listen] with these, and the exit code.
  const auto check = [&](const std::string& certificate, const std::string& key,
                         const std::string& client_ca,
                         const std::string& more) {
    const std::string config = absl::StrCat(folder, "/kilnd.toml");
    std::ofstream(config) << "[listen]\ntcp = \"127.0.0.1:7117\""
                          << "\ntls_certificate = \"" << certificate
                          << "\"\ntls_key = \"" << key
                          << "\"\ntls_client_ca = \"" << client_ca << "\"\n"
                          << more;
    return Kilnd::ExitOf(kilnd.Start({"--check-config", "--config", config}));
  };
  EXPECT_EQ(check(own.certificate, own.key, ca.file(), ""), 0) << kilnd.Said();
  const std::string far =
      "[far]\naddresses = [\"127.0.0.1:6379\"]\ntls_ca = \"/nowhere.far\"\n";
  struct Row {
    std::string certificate, key, client_ca, more, said;
  };
  for (const Row& row :
       {Row{"nowhere.crt", own.key, "", "",
            "nowhere.crt: can't be read: No such file or directory (seen "
            "from "},
        Row{own.certificate, "/nowhere.key", "", "", "/nowhere.key: can't be"},
        Row{own.certificate, other.key, "", "", "not the key of"},
        Row{own.certificate, own.key, "/nowhere.ca", "", "/nowhere.ca: can't"},
        Row{own.certificate, own.key, "", far, "/nowhere.far"}}) {
    EXPECT_EQ(check(row.certificate, row.key, row.client_ca, row.more), 1);
    EXPECT_TRUE(absl::StrContains(kilnd.Said(), row.said)) << kilnd.Said();
  }
}

TEST(KilndMain, TheExampleConfigurationIsSound) {
  Kilnd kilnd;
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--check-config", "--config",
                                       Runfile("deploy/kilnd.example.toml")},
                                      /*bare=*/true)),
            0)
      << kilnd.Said();
}

TEST(KilndMain, AWrongUseIsTwo) {
  Kilnd kilnd;
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--no-such-flag"})), 2);
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--log-format", "xml"})), 2);
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--check-config", "--tcp", "foo"})), 2);
  EXPECT_EQ(Kilnd::ExitOf(
                kilnd.Start({"--check-config", "--tcp", "127.0.0.1:99999"})),
            2);
  EXPECT_EQ(
      Kilnd::ExitOf(kilnd.Start({"--check-config", "--config", "/dev/zero"})),
      2);
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--config", "/nowhere.toml"})), 2);
  EXPECT_TRUE(absl::StrContains(kilnd.Said(), "/nowhere.toml"));
}

TEST(KilndMain, VersionIsPrinted) {
  Kilnd kilnd;
  EXPECT_EQ(Kilnd::ExitOf(kilnd.Start({"--version"}, /*bare=*/true)), 0);
  EXPECT_TRUE(absl::StartsWith(kilnd.Said(), "kilnd "));
}

}  // namespace
}  // namespace kiln

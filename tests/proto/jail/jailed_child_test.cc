#include "proto/jail/jailed_child.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"
#include "tests/proto/jail/jailed.h"
#include "tests/support/short_folder.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int kPatienceMs = 60000;

int64_t NumberOf(const std::string& answer) {
  absl::string_view rest = answer;
  int64_t number = -1;
  EXPECT_TRUE(absl::ConsumePrefix(&rest, "ok ") &&
              absl::SimpleAtoi(rest, &number))
      << answer;
  return number;
}

TEST_P(Jailed, ReadsNoSigningKeyAndNoFileOfAnyone) {
  const auto worker = Start();
  if (worker == nullptr) return;
  const std::string key =
      Ask(*worker, absl::StrCat("read ", Path("signing.key")));
  const std::string passwd = Ask(*worker, "read /etc/passwd");
  if (has_view()) {
    EXPECT_THAT(key, Not(StartsWith("ok")));
    EXPECT_THAT(passwd, Not(StartsWith("ok")));
  }
  EXPECT_THAT(Ask(*worker, "read /usr/bin/env"), StartsWith("ok"));
}

TEST_P(Jailed, ConnectsToNoSocketOfTheDaemon) {
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_THAT(Ask(*worker, absl::StrCat("connect ", Path("kilnd.sock"))),
              Not(StartsWith("ok")));
}

// Its driver needs sockets to start.
TEST_P(Jailed, ConnectsNowhereWithAGpuEither) {
  const auto worker = StartWithGpu(true);
  if (worker == nullptr) return;
  const std::string connect =
      Ask(*worker, absl::StrCat("connect ", Path("kilnd.sock")));
  EXPECT_THAT(connect, Not(StartsWith("ok")));
  if (!has_view()) return;
  EXPECT_EQ(connect, std::strerror(ECONNREFUSED));
  EXPECT_EQ(Ask(*worker, "dial 1"), std::strerror(EPERM));
}

// As the log's socket of most machines is.
TEST_P(Jailed, SendsNoDatagrams) {
  const int log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s",
           Path("log").c_str());
  ASSERT_EQ(bind(log, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  chmod(Path("log").c_str(), 0777);
  for (const bool gpu : {false, true}) {
    const auto worker = StartWithGpu(gpu);
    if (worker == nullptr) break;
    EXPECT_EQ(Ask(*worker, absl::StrCat("send ", Path("log"))),
              "none of its own")
        << gpu;
  }
  char word = 0;
  EXPECT_LT(recv(log, &word, 1, MSG_DONTWAIT), 0);
  close(log);
}

TEST_P(Jailed, HasNoNetwork) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_THAT(Ask(*worker, absl::StrCat("dial ", ntohs(address.sin_port))),
              Not(StartsWith("ok")));
  close(listener);
}

TEST_P(Jailed, WritesInItsOwnFolderAlone) {
  const auto worker = Start();
  const auto other = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, "write unit.so"), "ok");
  EXPECT_EQ(Ask(*worker, absl::StrCat("write ", worker->scratch(), "/also")),
            "ok");
  for (const std::string& path :
       {Path("written"), Path("scratch/written"), other->scratch() + "/written",
        std::string("/usr/written"), std::string("/written")}) {
    const std::string answer = Ask(*worker, absl::StrCat("write ", path));
    if (has_view()) {
      EXPECT_THAT(answer, Not(StartsWith("ok"))) << path;
    }
    std::filesystem::remove(path);
  }
  EXPECT_TRUE(std::filesystem::exists(worker->scratch() + "/unit.so"));
  if (has_view()) {
    EXPECT_THAT(Ask(*worker, absl::StrCat("list ", other->scratch())),
                Not(StartsWith("ok")));
  }
}

// A named pipe that tells when nobody holds it any more.
class Leash {
 public:
  explicit Leash(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_EQ(chmod(path_.c_str(), 0666), 0);
    fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~Leash() { close(fd_); }
  const std::string& path() const { return path_; }
  // Waits for a holder's word.
  bool IsHeld() {
    pollfd entry = {.fd = fd_, .events = POLLIN, .revents = 0};
    char word = 0;
    return poll(&entry, 1, kPatienceMs) == 1 && read(fd_, &word, 1) == 1;
  }
  bool IsLetGo(int patience_ms) {
    pollfd entry = {.fd = fd_, .events = 0, .revents = 0};
    return poll(&entry, 1, patience_ms) == 1 && (entry.revents & POLLHUP) != 0;
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

TEST_P(Jailed, DoesNotEscapeItsEndBySetsid) {
  std::filesystem::create_directory(Path("pipes"));
  Leash leash(Path("pipes/leash"));
  JailedChildOptions options = Options();
  options.jail.writable = {Path("pipes")};
  auto worker = Start(options);
  if (worker == nullptr) return;
  ASSERT_EQ(Ask(*worker, absl::StrCat("escape ", leash.path())), "ok");
  ASSERT_TRUE(leash.IsHeld());
  worker.reset();
  // At once: none of it runs when its object is gone.
  EXPECT_TRUE(leash.IsLetGo(0));
}

TEST_P(Jailed, EndsWithAllThatItStartedWhenItsDaemonIsGone) {
  std::filesystem::create_directory(Path("pipes"));
  Leash leash(Path("pipes/leash"));
  JailedChildOptions options = Options();
  options.jail.writable = {Path("pipes")};
  const auto worker = Start(options);
  if (worker == nullptr) return;
  ASSERT_EQ(Ask(*worker, absl::StrCat("escape ", leash.path())), "ok");
  ASSERT_TRUE(leash.IsHeld());
  worker->Interrupt();  // as the kernel does for a daemon that was killed
  EXPECT_TRUE(leash.IsLetGo(kPatienceMs));
}

TEST_P(Jailed, AForkBombIsBoundedAndGoneWithIt) {
  auto worker = Start();
  if (worker == nullptr) return;
  const int64_t forked = NumberOf(Ask(*worker, "bomb"));
  EXPECT_GT(forked, 16);
  EXPECT_LT(forked, 20000);
  const pid_t pid = worker->pid();
  worker.reset();
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_P(Jailed, TakesNoMoreMemoryThanItMayPrivateOrShared) {
  if (kTestWorkerMemoryBytes == 0) GTEST_SKIP() << "a sanitizer takes it all";
  JailedChildOptions options = Options();
  options.jail.memory_bytes = int64_t{256} << 20;
  for (const char* order : {"eat", "share"}) {
    const auto worker = Start(options);
    if (worker == nullptr) return;
    const int64_t mebibytes = NumberOf(Ask(*worker, order));
    EXPECT_GT(mebibytes, 100) << order;
    EXPECT_LE(mebibytes, 512) << order;
  }
}

TEST_P(Jailed, OpensAndFillsNoMoreFilesThanItMay) {
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_LE(NumberOf(Ask(*worker, "grow")), 1024);
  EXPECT_LE(NumberOf(Ask(*worker, "files")), 256);
}

TEST_P(Jailed, ALinkInThePlaceOfItsLogLeadsNowhere) {
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, absl::StrCat("link ", Path("signing.key"))), "ok");
  const std::string words = worker->PostMortem();
  EXPECT_THAT(words, HasSubstr("nothing to see"));
  EXPECT_THAT(words, Not(HasSubstr("a secret")));
  std::ifstream key(Path("signing.key"));
  std::string secret;
  std::getline(key, secret);
  EXPECT_EQ(secret, "a secret");
}

// As a daemon's data folder is, and often those above it.
TEST_P(Jailed, WorksBelowAFolderThatOnlyItsDaemonMayEnter) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0700), 0);
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, "write unit.so"), "ok");
  const std::string key =
      Ask(*worker, absl::StrCat("read ", Path("signing.key")));
  if (geteuid() == 0 || has_view()) {
    EXPECT_THAT(key, Not(StartsWith("ok")));
  }
}

TEST_P(Jailed, ItsFolderIsRemovedWithIt) {
  auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, "write unit.so"), "ok");
  worker.reset();
  EXPECT_TRUE(std::filesystem::is_empty(Path("scratch")));
}

TEST(JailedChild, AProgramThatEntersNoJailIsRefused) {
  ShortFolder folder;
  const auto started = JailedChild::Start(
      {.program = "/bin/true", .scratch_prefix = folder.path() + "/worker"},
      kJailPatience);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kNoToolchain);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kiln

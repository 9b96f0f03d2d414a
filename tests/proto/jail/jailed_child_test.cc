#include "proto/jail/jailed_child.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/short_folder.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr int kPatienceMs = 60000;
// Named by a test of ours that runs us as another user.
constexpr char kWorkerVariable[] = "KILN_LYING_WORKER";

std::string LyingWorker() {
  const char* given = getenv(kWorkerVariable);
  return given != nullptr
             ? given
             : std::filesystem::absolute("tests/proto/jail/lying_worker")
                   .string();
}

// Whether a process of ours may have namespaces of its own, asked of the kernel
// past all of Kiln.
bool GrantsNamespaces() {
  constexpr int kOwn = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET;
  for (const int flags : {kOwn, kOwn | CLONE_NEWUSER}) {
    const pid_t child = static_cast<pid_t>(
        syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, 0));
    if (child == 0) _exit(0);
    if (child < 0) continue;
    waitpid(child, nullptr, 0);
    return true;
  }
  return false;
}

bool GrantsLandlock() {
  constexpr int kAskForVersion = 1;
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskForVersion) > 0;
}

bool Grants(JailLevel level) {
  switch (level) {
    case JailLevel::kLimits:
      return true;
    case JailLevel::kLandlock:
      return GrantsLandlock();
    case JailLevel::kNamespaces:
      return GrantsNamespaces();
  }
  return false;
}

JailLevel Strongest() {
  if (GrantsNamespaces()) return JailLevel::kNamespaces;
  return GrantsLandlock() ? JailLevel::kLandlock : JailLevel::kLimits;
}

// The data folder of a daemon, with all that a worker is after: a signing key, a
// socket somebody listens on, another's scratch folder.
class Jailed : public testing::TestWithParam<JailLevel> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(Path("scratch"));
    chmod(folder_.path().c_str(), 0755);
    std::ofstream(Path("signing.key")) << "a secret";
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s",
             Path("kilnd.sock").c_str());
    ASSERT_EQ(
        bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    ASSERT_EQ(listen(socket_, 8), 0);
    // Whoever may see them may use them: only the jail is in the way.
    chmod(Path("signing.key").c_str(), 0644);
    chmod(Path("kilnd.sock").c_str(), 0777);
    chmod(Path("scratch").c_str(), 0777);
  }
  void TearDown() override { close(socket_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }

  JailedChildOptions Options() const {
    JailedChildOptions options = {.program = LyingWorker(),
                                  .scratch_prefix = Path("scratch/worker0")};
    options.jail.levels = {.weakest = GetParam(), .strongest = GetParam()};
    options.jail.memory_bytes = kTestWorkerMemoryBytes;
    return options;
  }

  // Null, and as it is due, where the machine does not grant the level.
  std::unique_ptr<JailedChild> Start(const JailedChildOptions& options) const {
    auto started = JailedChild::Start(options, kPatience);
    if (Grants(GetParam())) {
      EXPECT_TRUE(started.ok()) << started.status();
      if (!started.ok()) return nullptr;
      EXPECT_EQ((*started)->report().level, GetParam());
      return *std::move(started);
    }
    EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kPermission);
    EXPECT_THAT(std::string(started.status().message()),
                HasSubstr(std::string(JailLevelName(GetParam()))));
    return nullptr;
  }
  std::unique_ptr<JailedChild> Start() const { return Start(Options()); }

  bool has_view() const { return GetParam() >= JailLevel::kLandlock; }

  ShortFolder folder_;
  int socket_ = -1;
};

std::string Ask(JailedChild& worker, const std::string& order) {
  EXPECT_TRUE(WriteFrame(worker.socket_fd(), order).ok());
  const auto answer =
      ReadFrame(worker.socket_fd(), {.deadline = SteadyIn(kPatience)});
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.value_or("");
}

int64_t NumberOf(const std::string& answer) {
  absl::string_view rest = answer;
  int64_t number = -1;
  EXPECT_TRUE(absl::ConsumePrefix(&rest, "ok ") &&
              absl::SimpleAtoi(rest, &number))
      << answer;
  return number;
}

INSTANTIATE_TEST_SUITE_P(EachLevel, Jailed,
                         testing::Values(JailLevel::kLimits,
                                         JailLevel::kLandlock,
                                         JailLevel::kNamespaces),
                         [](const auto& info) {
                           return std::string(JailLevelName(info.param));
                         });

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
  JailedChildOptions options = Options();
  options.jail.gpu = true;
  const auto worker = Start(options);
  if (worker == nullptr) return;
  const std::string connect =
      Ask(*worker, absl::StrCat("connect ", Path("kilnd.sock")));
  EXPECT_THAT(connect, Not(StartsWith("ok")));
  if (!has_view()) return;
  EXPECT_EQ(connect, std::strerror(ECONNREFUSED));
  EXPECT_EQ(Ask(*worker, "dial 1"), std::strerror(EPERM));
  EXPECT_EQ(Ask(*worker, absl::StrCat("send ", Path("kilnd.sock"))),
            std::strerror(EPERM));
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

TEST_P(Jailed, SignalsNobodyOutside) {
  const auto worker = Start();
  const auto other = Start();
  if (worker == nullptr) return;
  const std::string answer =
      Ask(*worker, absl::StrCat("signal ", other->pid()));
  // Without a user of its own, and without a view, it is one of its user's.
  if (has_view() || geteuid() == 0) {
    EXPECT_THAT(answer, Not(StartsWith("ok")));
    EXPECT_THAT(Ask(*other, "who"), StartsWith("ok"));
  }
}

// Whoever's user they are.
TEST_P(Jailed, ChangesNobodysLimitsAndPriorityButItsOwn) {
  const auto worker = Start();
  const auto other = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, absl::StrCat("change ", other->pid())), "ok");
  EXPECT_EQ(Ask(*worker, absl::StrCat("change ", getpid())), "ok");
  const std::string own = Ask(*worker, "change 0");
  for (const char* call : {"prlimit", "setscheduler", "setparam", "setattr",
                           "setaffinity", "setpriority", "ioprio"}) {
    EXPECT_THAT(own, HasSubstr(absl::StrCat(" ", call)));
  }
  EXPECT_THAT(own, Not(HasSubstr("of a user")));
}

TEST_P(Jailed, IsIdleAndWhereItMayBeAUserOfItsOwn) {
  const auto one = Start();
  const auto other = Start();
  if (one == nullptr) return;
  const std::string who = Ask(*one, "who");
  EXPECT_THAT(who, HasSubstr(absl::StrCat("policy ", SCHED_IDLE)));
  EXPECT_THAT(who, HasSubstr("nice 19"));
  if (geteuid() == 0) {
    EXPECT_THAT(who, Not(HasSubstr("uid 0")));
    EXPECT_NE(who, Ask(*other, "who"));
  }
}

// Whether a process of ours that says it is first to go when memory ends says so
// for its children too, asked of the kernel.
bool GrantsAFloorOfOomScore() {
  const pid_t child = fork();
  if (child == 0) {
    const auto write_score = [](absl::string_view score) {
      const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
      return write(fd, score.data(), score.size()) > 0;
    };
    if (!write_score("1000")) _exit(0);
    constexpr uid_t kNobody = 65534;
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    _exit(write_score("0") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1;
}

TEST_P(Jailed, StaysFirstToGoWhenMemoryEnds) {
  for (const bool gpu : {false, true}) {
    JailedChildOptions options = Options();
    options.jail.gpu = gpu;
    const auto worker = Start(options);
    if (worker == nullptr) return;
    const auto score = [&worker] {
      std::ifstream in(absl::StrCat("/proc/", worker->pid(), "/oom_score_adj"));
      int found = 0;
      in >> found;
      return found;
    };
    EXPECT_EQ(score(), 1000);
    // Elsewhere it may write its own /proc/self: SECURITY.md says so.
    const bool kept = (has_view() && !gpu) || GrantsAFloorOfOomScore();
    EXPECT_EQ(Ask(*worker, "oom") == "ok", !kept) << gpu;
    EXPECT_EQ(score(), kept ? 1000 : 0) << gpu;
  }
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

TEST(JailLevels, TheStrongestThatTheMachineGrantsIsTaken) {
  ShortFolder folder;
  JailedChildOptions options = {.program = LyingWorker(),
                                .scratch_prefix = folder.path() + "/worker"};
  const auto worker = JailedChild::Start(options, kPatience);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ((*worker)->report().level, Strongest());
  EXPECT_EQ((*worker)->report().lacks.empty(),
            Strongest() == JailLevel::kNamespaces);
}

// All of the above once more, as somebody who is not root: with a user namespace
// where the machine grants one.
TEST(JailLevels, HoldForADaemonThatIsNotRoot) {
  if (geteuid() != 0) return;  // it is what runs
  ShortFolder folder;
  chmod(folder.path().c_str(), 0755);
  const std::string worker = folder.path() + "/lying_worker";
  const std::string self = folder.path() + "/test";
  const std::string temp = folder.path() + "/tmp";
  std::filesystem::copy_file(LyingWorker(), worker);
  std::filesystem::copy_file("/proc/self/exe", self);
  std::filesystem::create_directory(temp);
  chmod(temp.c_str(), 0777);
  ChildOptions options;
  options.program = "/usr/bin/setpriv";
  options.args = {"--reuid=65534", "--regid=65534", "--clear-groups", self};
  options.env = {absl::StrCat(kWorkerVariable, "=", worker),
                 absl::StrCat("TEST_TMPDIR=", temp)};
  options.folder = temp;
  options.descriptors = {{.ours = 1, .childs = 1}, {.ours = 2, .childs = 2}};
  auto child = Child::Start(options);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(), 0);
}

TEST(JailedChild, AProgramThatEntersNoJailIsRefused) {
  ShortFolder folder;
  const auto started = JailedChild::Start(
      {.program = "/bin/true", .scratch_prefix = folder.path() + "/worker"},
      kPatience);
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kNoToolchain);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace kiln

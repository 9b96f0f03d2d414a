// What a worker may do to other processes and to its own standing, and all that a
// jail holds for daemons with less rights than the one that runs the tests.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/child.h"
#include "proto/jail/jailed_child.h"
#include "proto/jail/lowest_priority.h"
#include "proto/jail/own_memory.h"
#include "tests/proto/jail/jailed.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string FileOf(const std::string& process, const std::string& name) {
  std::ifstream in(absl::StrCat("/proc/", process, "/", name));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string ParentOf(pid_t process) {
  std::istringstream status(FileOf(absl::StrCat(process), "status"));
  std::string word;
  while (status >> word) {
    if (word == "PPid:") break;
  }
  status >> word;
  return word;
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
  for (const char* call : {"prlimit", "setscheduler", "setparam", "setaffinity",
                           "setpriority", "ioprio"}) {
    EXPECT_THAT(own, HasSubstr(absl::StrCat(" ", call)));
  }
  EXPECT_THAT(own, Not(HasSubstr("setattr")));
  EXPECT_THAT(own, Not(HasSubstr("of a user")));
}

TEST(CoresWithoutWorkers, AreAnEighthAndNoneOfFew) {
  EXPECT_EQ(CoresWithoutWorkers(1), 0);
  EXPECT_EQ(CoresWithoutWorkers(7), 0);
  EXPECT_EQ(CoresWithoutWorkers(8), 1);
  EXPECT_EQ(CoresWithoutWorkers(16), 2);
  EXPECT_EQ(CoresWithoutWorkers(128), 16);
}

TEST_P(Jailed, HasTheLowestPriorityAndWhereItMayAUserOfItsOwn) {
  const auto one = Start();
  const auto other = Start();
  if (one == nullptr) return;
  const std::string who = Ask(*one, "who");
  EXPECT_THAT(who, HasSubstr(absl::StrCat("policy ", SCHED_BATCH)));
  EXPECT_THAT(who, HasSubstr("nice 19"));
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  const int all = CPU_COUNT(&cores);
  EXPECT_THAT(
      who, EndsWith(absl::StrCat(" cores ", all - CoresWithoutWorkers(all))));
  if (geteuid() == 0) {
    EXPECT_THAT(who, Not(HasSubstr("uid 0")));
    EXPECT_NE(who, Ask(*other, "who"));
  }
}

// Also where the machine lets its users choose any priority.
TEST_P(Jailed, KeepsTheLowestPriority) {
  constexpr rlim_t kAnyNice = 40;
  constexpr rlim_t kAnyRealTime = 99;
  for (const auto& [what, most] : {std::pair(RLIMIT_NICE, kAnyNice),
                                   std::pair(RLIMIT_RTPRIO, kAnyRealTime)}) {
    const rlimit any = {.rlim_cur = most, .rlim_max = most};
    setrlimit(what, &any);  // as root
  }
  const auto worker = Start();
  if (worker == nullptr) return;
  EXPECT_EQ(Ask(*worker, "hurry"), "ok");
  EXPECT_THAT(Ask(*worker, "who"),
              HasSubstr(absl::StrCat("policy ", SCHED_BATCH, " nice 19")));
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

// What is root's alone to write, seen through a /proc of its own.
TEST_P(Jailed, WritesNoSettingOfTheMachine) {
  for (const bool gpu : {false, true}) {
    const auto worker = StartWithGpu(gpu);
    if (worker == nullptr) return;
    EXPECT_THAT(Ask(*worker, "open /proc/sys/kernel/core_pattern"),
                Not(StartsWith("ok")))
        << gpu;
  }
}

// As one of its user too: at `limits`, where nothing else is in the way.
TEST_P(Jailed, OpensNoMemoryOfItsDaemonAndItsJailer) {
  KeepMemoryToItself();
  const auto worker = Start();
  if (worker != nullptr) {
    for (const std::string& process :
         {absl::StrCat(getpid()), ParentOf(worker->pid())}) {
      EXPECT_THAT(Ask(*worker, absl::StrCat("open /proc/", process, "/mem")),
                  Not(StartsWith("ok")));
    }
  }
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

// It is of the worker's user, and has the worker's filter and limits.
TEST_P(Jailed, DoesNotTakeOverItsInit) {
  const auto worker = Start();
  if (worker == nullptr || GetParam() != JailLevel::kNamespaces) return;
  for (const char* file : {"mem", "oom_score_adj", "comm"}) {
    EXPECT_THAT(Ask(*worker, absl::StrCat("open /proc/1/", file)),
                Not(StartsWith("ok")));
  }
  const std::string init = ParentOf(worker->pid());
  EXPECT_THAT(FileOf(init, "status"), HasSubstr("Seccomp:\t2"));
  EXPECT_EQ(FileOf(init, "limits"),
            FileOf(absl::StrCat(worker->pid()), "limits"));
}

TEST_P(Jailed, StaysFirstToGoWhenMemoryEnds) {
  for (const bool gpu : {false, true}) {
    const auto worker = StartWithGpu(gpu);
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

TEST(JailLevels, TheStrongestThatTheMachineGrantsIsTaken) {
  ShortFolder folder;
  JailedChildOptions options = {.program = LyingWorker(),
                                .scratch_prefix = folder.path() + "/worker"};
  const auto worker = JailedChild::Start(options, kJailPatience);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ((*worker)->report().level, StrongestGranted());
  EXPECT_EQ((*worker)->report().lacks.empty(),
            StrongestGranted() == JailLevel::kNamespaces);
}

// All of the above once more, in a process that `setpriv` gives less rights:
// whether it held.
bool HoldsAs(const std::vector<std::string>& less,
             const std::vector<std::string>& variables = {}) {
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
  options.args = less;
  options.args.push_back(self);
  options.env = {absl::StrCat(kLyingWorkerVariable, "=", worker),
                 absl::StrCat("TEST_TMPDIR=", temp)};
  options.env.insert(options.env.end(), variables.begin(), variables.end());
  options.folder = temp;
  options.descriptors = {{.ours = 1, .childs = 1}, {.ours = 2, .childs = 2}};
  auto child = Child::Start(options);
  EXPECT_TRUE(child.ok()) << child.status();
  return child.ok() && child->Wait() == 0;
}

// Whether Landlock's calls are refused here, as by a kernel that has none.
constexpr char kNoLandlockVariable[] = "KILN_TEST_WITHOUT_LANDLOCK";

class WithoutLandlock : public testing::Environment {
  void SetUp() override {
    if (getenv(kNoLandlockVariable) == nullptr) return;
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_landlock_create_ruleset, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SYS_landlock_restrict_self, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    sock_fprog program = {.len = std::size(steps), .filter = steps};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    ASSERT_FALSE(Grants(JailLevel::kLandlock));
  }
};
const auto* const without_landlock =
    testing::AddGlobalTestEnvironment(new WithoutLandlock);

bool IsFirst() { return getenv(kLyingWorkerVariable) == nullptr; }

// By a root of its own alone, where there may be one.
TEST(JailLevels, HoldWithoutLandlock) {
  if (!IsFirst()) return;
  const std::vector<std::string> variables = {
      absl::StrCat(kNoLandlockVariable, "=1"),
      "GTEST_FILTER=*Jailed.*/namespaces:JailLevels.TheStrongest*"};
  EXPECT_TRUE(HoldsAs({"--no-new-privs"}, variables));
  if (geteuid() != 0) return;
  EXPECT_TRUE(
      HoldsAs({"--reuid=65534", "--regid=65534", "--clear-groups"}, variables));
}

// With a user namespace where the machine grants one.
TEST(JailLevels, HoldForADaemonThatIsNotRoot) {
  if (geteuid() != 0) return;  // it is what runs
  if (!IsFirst()) return;
  EXPECT_TRUE(HoldsAs({"--reuid=65534", "--regid=65534", "--clear-groups"}));
}

// As in a container: it may become anybody, and mounts nothing itself.
TEST(JailLevels, HoldForARootThatMayNotMount) {
  if (geteuid() != 0 || !IsFirst()) return;
  EXPECT_TRUE(HoldsAs({"--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}));
}

}  // namespace
}  // namespace kiln

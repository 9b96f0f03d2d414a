#include "tests/proto/jail/jailed.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/worker_memory.h"

namespace kiln {
namespace {

// Whether a process of ours may have namespaces of its own.
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

}  // namespace

std::string LyingWorker() {
  const char* given = getenv(kLyingWorkerVariable);
  return given != nullptr
             ? given
             : std::filesystem::absolute("tests/proto/jail/lying_worker")
                   .string();
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

JailLevel StrongestGranted() {
  if (GrantsNamespaces()) return JailLevel::kNamespaces;
  return GrantsLandlock() ? JailLevel::kLandlock : JailLevel::kLimits;
}

void Jailed::SetUp() {
  std::filesystem::create_directories(Path("scratch"));
  chmod(folder_.path().c_str(), 0755);
  std::ofstream(Path("signing.key")) << "a secret";
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s",
           Path("kilnd.sock").c_str());
  ASSERT_EQ(
      bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(socket_, 8), 0);
  // Whoever may see them may use them: only the jail is in the way.
  chmod(Path("signing.key").c_str(), 0644);
  chmod(Path("kilnd.sock").c_str(), 0777);
  chmod(Path("scratch").c_str(), 0777);
}

void Jailed::TearDown() { close(socket_); }

JailedChildOptions Jailed::Options() const {
  JailedChildOptions options = {.program = LyingWorker(),
                                .scratch_prefix = Path("scratch/worker0")};
  options.jail.levels = {.weakest = GetParam(), .strongest = GetParam()};
  options.jail.memory_bytes = kTestWorkerMemoryBytes;
  return options;
}

std::unique_ptr<JailedChild> Jailed::Start(
    const JailedChildOptions& options) const {
  auto started = JailedChild::Start(options, kJailPatience);
  if (Grants(GetParam())) {
    EXPECT_TRUE(started.ok()) << started.status();
    if (!started.ok()) return nullptr;
    EXPECT_EQ((*started)->report().level, GetParam());
    return *std::move(started);
  }
  EXPECT_EQ(ReasonOf(started.status()), ErrorReason::kPermission);
  EXPECT_THAT(std::string(started.status().message()),
              testing::HasSubstr(std::string(JailLevelName(GetParam()))));
  return nullptr;
}

std::unique_ptr<JailedChild> Jailed::StartWithGpu(bool gpu) const {
  JailedChildOptions options = Options();
  options.jail.gpu = gpu;
  return Start(options);
}

std::string Ask(JailedChild& worker, const std::string& order) {
  EXPECT_TRUE(WriteFrame(worker.socket_fd(), order).ok());
  const auto answer =
      ReadFrame(worker.socket_fd(), {.deadline = SteadyIn(kJailPatience)});
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.value_or("");
}

INSTANTIATE_TEST_SUITE_P(EachLevel, Jailed,
                         testing::Values(JailLevel::kLimits,
                                         JailLevel::kLandlock,
                                         JailLevel::kNamespaces),
                         [](const auto& info) {
                           return std::string(JailLevelName(info.param));
                         });

}  // namespace kiln

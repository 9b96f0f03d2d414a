#include "proto/jail/jail_identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Nobody's by systemd's table of users (UIDS-GIDS), and as many as there are
// process numbers. A container with fewer users has these, above those that
// Debian and systemd give out.
constexpr uint64_t kFirstUser = 0x70000000;
constexpr uint64_t kUsers = uint64_t{1} << 22;
constexpr uint64_t kFirstUserOfFew = 65000;
constexpr uint64_t kFewUsers = 500;

// Larger than any object and any stderr worth keeping.
constexpr int64_t kFileBytes = int64_t{1} << 30;
constexpr int64_t kFiles = 256;
// CUDA's driver opens some dozens a device.
constexpr int64_t kFilesWithGpu = 4096;
// Threads and processes beyond a few a core: g++ is four.
constexpr int64_t kProcesses = 128;
constexpr int64_t kProcessesACore = 4;
// A sanitizer's shadow takes terabytes of addresses: no limit leaves room for it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsLimited = false;
#else
constexpr bool kMemoryIsLimited = true;
#endif
// Seconds from SIGXCPU, which tells what the matter is, to the end.
constexpr int64_t kCpuGrace = 2;

bool IsMapped(uint64_t user) {
  std::ifstream in("/proc/self/uid_map");
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  while (in >> inside >> outside >> count) {
    if (user >= inside && user - inside < count) return true;
  }
  return false;
}

// Processes and threads of everybody, as far as this process sees.
int64_t ThreadsOfAll() {
  std::ifstream in("/proc/loadavg");
  std::string word;
  for (int i = 0; i < 4; ++i) in >> word;  // "2/345"
  int64_t count = 0;
  const size_t slash = word.find('/');
  return slash != std::string::npos &&
                 absl::SimpleAtoi(word.substr(slash + 1), &count)
             ? count
             : 0;
}

// `grace`: how far the hard limit is above.
absl::Status SetLimit(__rlimit_resource what, absl::string_view name,
                      int64_t value, int64_t grace = 0) {
  rlimit limit = {};
  getrlimit(what, &limit);
  limit.rlim_max = std::min(static_cast<rlim_t>(value + grace), limit.rlim_max);
  limit.rlim_cur = std::min(static_cast<rlim_t>(value), limit.rlim_max);
  if (setrlimit(what, &limit) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("limit of ", name));
}

}  // namespace

std::optional<uid_t> OwnUser(pid_t pid) {
  if (geteuid() != 0) return std::nullopt;
  const uint64_t number = static_cast<uint64_t>(pid);
  for (const uint64_t user :
       {kFirstUser + number % kUsers, kFirstUserOfFew + number % kFewUsers}) {
    if (IsMapped(user)) return static_cast<uid_t>(user);
  }
  return std::nullopt;
}

absl::Status BecomeUser(uid_t user) {
  if (setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 &&
      setresuid(user, user, user) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("user ", user));
}

absl::Status DropRights(std::optional<uid_t> user) {
  if (user.has_value()) RETURN_IF_ERROR(BecomeUser(*user));
  // Where it may not be lowered there is nothing to lower.
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3,
                                     .pid = 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, none) != 0) {
    return absl::ErrnoToStatus(errno, "capabilities");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return absl::ErrnoToStatus(errno, "no_new_privs");
  }
  // A change of user takes a process its own /proc/self.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return absl::OkStatus();
}

void BeFirstToGo() { std::ofstream("/proc/self/oom_score_adj") << 1000; }

absl::Status LimitSelf(const JailSpec& spec, bool users_own) {
  RETURN_IF_ERROR(SetLimit(RLIMIT_CORE, "core files", 0));
  RETURN_IF_ERROR(SetLimit(RLIMIT_FSIZE, "a file's bytes", kFileBytes));
  RETURN_IF_ERROR(
      SetLimit(RLIMIT_NOFILE, "open files", spec.gpu ? kFilesWithGpu : kFiles));
  RETURN_IF_ERROR(SetLimit(RLIMIT_MSGQUEUE, "message queues", 0));
  // A machine may let its users hurry; nobody comes back from the lowest.
  RETURN_IF_ERROR(SetLimit(RLIMIT_NICE, "nice values", 0));
  RETURN_IF_ERROR(SetLimit(RLIMIT_RTPRIO, "real-time priority", 0));
  const int64_t cores =
      std::max<int64_t>(1, std::thread::hardware_concurrency());
  RETURN_IF_ERROR(SetLimit(
      RLIMIT_NPROC, "processes",
      kProcesses + kProcessesACore * cores + (users_own ? 0 : ThreadsOfAll())));
  if (kMemoryIsLimited && spec.memory_bytes > 0) {
    // Memory that can be written, not addresses: CUDA's driver reserves many
    // times what a device has.
    RETURN_IF_ERROR(SetLimit(RLIMIT_DATA, "memory", spec.memory_bytes));
    // Shared memory does not count there.
    if (!spec.gpu) {
      RETURN_IF_ERROR(SetLimit(RLIMIT_AS, "addresses", 2 * spec.memory_bytes));
    }
  }
  if (spec.cpu_seconds > 0) {
    RETURN_IF_ERROR(
        SetLimit(RLIMIT_CPU, "processor time", spec.cpu_seconds, kCpuGrace));
  }
  return absl::OkStatus();
}

}  // namespace kiln

#include "server/worker_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "server/spawn.h"

namespace kiln {
namespace {

constexpr absl::string_view kStderrName = "stderr.log";
constexpr int64_t kTailBytes = 2048;
// How long a worker whose socket closed may take to be seen as ended.
constexpr int kExitGraceMs = 500;
// A start is some 50 ms; this is for a machine on its knees.
constexpr absl::Duration kHelloWall = absl::Seconds(20);

// A resource limit of another process; both ends are set, so that it can't be
// raised again from inside.
void SetLimit(pid_t pid, __rlimit_resource what, int64_t value) {
  const rlimit limit = {.rlim_cur = static_cast<rlim_t>(value),
                        .rlim_max = static_cast<rlim_t>(value)};
  // Fails only for a process that has ended, and that is seen at the next read.
  prlimit(pid, what, &limit, nullptr);
}

// A descriptor that becomes readable when the process ends. By number: the
// header of glibc 2.36 declares it without C linkage.
int OpenPidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// Past libc, as it was opened: ThreadSanitizer keeps a history by descriptor
// number, and a close without the open is held against the number's last owner.
void ClosePidfd(int pidfd) { syscall(SYS_close, pidfd); }

absl::Status EmptyFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) std::filesystem::create_directories(path, error);
  if (error) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("folder ", path, ": ", error.message()));
  }
  return absl::OkStatus();
}

// The end of a file, without the line that the cut went through.
std::string TailOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const int64_t size = in.tellg();
  const int64_t from = std::max<int64_t>(0, size - kTailBytes);
  in.seekg(from);
  std::string tail(size - from, '\0');
  in.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  const size_t line = tail.find('\n');
  if (from > 0 && line != std::string::npos) tail.erase(0, line + 1);
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("ended by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("exited with ", WEXITSTATUS(status));
}

}  // namespace

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerProcess::Start(
    const WorkerLimits& limits, const std::string& scratch) {
  RETURN_IF_ERROR(EmptyFolder(scratch));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat("worker: socketpair: ", strerror(errno)));
  }
  SpawnOptions spawn;
  spawn.program = limits.program;
  spawn.args = limits.args;
  spawn.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C",
               absl::StrCat("TMPDIR=", scratch),
               absl::StrCat("HOME=", scratch)};
  spawn.env.insert(spawn.env.end(), limits.env.begin(), limits.env.end());
  spawn.folder = scratch;
  spawn.output_file = absl::StrCat(scratch, "/", kStderrName);
  spawn.socket_fd = ends[1];
  const absl::StatusOr<pid_t> pid = Spawn(spawn);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  auto worker =
      absl::WrapUnique(new WorkerProcess(limits, scratch, *pid, ends[0]));
  if (limits.memory_bytes > 0) SetLimit(*pid, RLIMIT_AS, limits.memory_bytes);
  SetLimit(*pid, RLIMIT_CORE, 0);

  wire::WorkRequest hello;
  hello.mutable_hello();
  ASSIGN_OR_RETURN(wire::WorkReply reply,
                   worker->CallWithin(kHelloWall, hello));
  if (!reply.has_hello()) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat("worker ", limits.program,
                                  ": no hello in its first reply"));
  }
  worker->hello_ = std::move(*reply.mutable_hello());
  return std::shared_ptr<WorkerProcess>(std::move(worker));
}

WorkerProcess::WorkerProcess(const WorkerLimits& limits, std::string scratch,
                             pid_t pid, int socket_fd)
    : limits_(limits),
      scratch_(std::move(scratch)),
      pid_(pid),
      socket_fd_(socket_fd) {}

WorkerProcess::~WorkerProcess() {
  KillAndReap();
  close(socket_fd_);
  std::error_code error;  // a folder left behind is emptied by the next start
  std::filesystem::remove_all(scratch_, error);
}

absl::StatusOr<wire::WorkReply> WorkerProcess::CallWithin(
    absl::Duration wall, const wire::WorkRequest& request) {
  const std::string subject =
      absl::StrCat("worker ", limits_.program, " pid ", pid_);
  LimitCpu();
  const absl::StatusOr<std::string> bytes =
      Exchange(request.SerializeAsString(), absl::Now() + wall);
  if (bytes.status().code() == absl::StatusCode::kOutOfRange &&
      request.ByteSizeLong() > static_cast<uint64_t>(kMaxFrameBytes)) {
    return bytes.status();
  }
  if (bytes.status().code() == absl::StatusCode::kDeadlineExceeded) {
    return absl::DeadlineExceededError(
        absl::StrCat(subject, ": no reply within ", absl::FormatDuration(wall),
                     "; ", PostMortem()));
  }
  if (!bytes.ok()) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat(subject, ": ", bytes.status().message(), "; ",
                                  PostMortem()));
  }
  wire::WorkReply reply;
  if (!reply.ParseFromString(*bytes) || reply.id() != request.id()) {
    return MakeError(ErrorReason::kWorkerDied,
                     absl::StrCat(subject, ": its reply is not one to request ",
                                  request.id(), "; ", PostMortem()));
  }
  return reply;
}

absl::StatusOr<std::string> WorkerProcess::Exchange(const std::string& request,
                                                    absl::Time deadline) {
  RETURN_IF_ERROR(WriteFrame(socket_fd_, request, {.deadline = deadline}));
  return ReadFrame(socket_fd_, {.deadline = deadline});
}

bool WorkerProcess::Alive() {
  if (!reaped_ && waitpid(pid_, &exit_status_, WNOHANG) == pid_) {
    reaped_ = true;
  }
  return !reaped_;
}

void WorkerProcess::Interrupt() { shutdown(socket_fd_, SHUT_RDWR); }

// The limit counts from the start of the process, so it moves with each call.
void WorkerProcess::LimitCpu() {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid_, &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    return;  // it has ended; the call will see that
  }
  const int64_t seconds = used.tv_sec + 1 + absl::ToInt64Seconds(limits_.cpu);
  const rlimit limit = {.rlim_cur = static_cast<rlim_t>(seconds),
                        .rlim_max = RLIM_INFINITY};
  prlimit(pid_, RLIMIT_CPU, &limit, nullptr);
}

std::string WorkerProcess::PostMortem() {
  // One whose socket closed is about to end by itself: let it, so that its own
  // signal is told and not ours.
  const int pidfd = reaped_ ? -1 : OpenPidfd(pid_);
  if (pidfd >= 0) {
    pollfd entry = {.fd = socket_fd_, .events = 0, .revents = 0};
    const bool closed = poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP);
    entry = {.fd = pidfd, .events = POLLIN, .revents = 0};
    poll(&entry, 1, closed ? kExitGraceMs : 0);
    ClosePidfd(pidfd);
  }
  const bool killed = Alive();
  KillAndReap();
  const std::string tail = TailOf(absl::StrCat(scratch_, "/", kStderrName));
  return absl::StrCat(
      killed ? "killed" : HowItEnded(exit_status_),
      tail.empty() ? "; stderr is empty" : "; stderr ends: ", tail);
}

void WorkerProcess::KillAndReap() {
  // The group outlives its leader when a compiler is left; a group's number is
  // not given away while it has members or an unreaped leader.
  if (!reaped_) {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, &exit_status_, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
  }
}

}  // namespace kiln

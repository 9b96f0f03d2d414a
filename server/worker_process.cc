#include "server/worker_process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/child.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Where a child finds its end of the socketpair: proto/worker.proto.
constexpr int kChildSocketFd = 3;
constexpr absl::string_view kStderrName = "stderr.log";
constexpr int64_t kTailBytes = 2048;
// How long a worker whose socket closed may take to be seen as ended.
constexpr absl::Duration kExitGrace = absl::Milliseconds(500);
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

// A folder that nobody has had, with its parents. Mode 0700.
absl::StatusOr<std::string> NewFolder(const std::string& prefix) {
  std::string path = absl::StrCat(prefix, "-XXXXXX");
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  if (!error && mkdtemp(path.data()) == nullptr) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return path;
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("scratch folder ", path, ": ", error.message(),
                   error == std::errc::no_space_on_device
                       ? "; free space on its disk, or name another with "
                         "--data-folder"
                       : ""));
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

// `why` begins with its subject.
absl::Status CannotStart(absl::string_view why) {
  return MakeError(
      ErrorReason::kNoToolchain,
      absl::StrCat(why, "; name the kiln-worker program with --worker"));
}

absl::StatusOr<Child> StartChild(const WorkerLimits& limits,
                                 const std::string& scratch, int socket_fd) {
  ChildOptions options;
  options.program = limits.program;
  options.args = limits.args;
  options.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C",
                 absl::StrCat("TMPDIR=", scratch),
                 absl::StrCat("HOME=", scratch)};
  options.env.insert(options.env.end(), limits.env.begin(), limits.env.end());
  options.folder = scratch;
  options.output_file = absl::StrCat(scratch, "/", kStderrName);
  options.descriptors = {{.ours = socket_fd, .childs = kChildSocketFd}};
  return Child::Start(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<WorkerProcess>> WorkerProcess::Start(
    const WorkerLimits& limits, const std::string& scratch_prefix) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return CannotStart(absl::StrCat("worker: socketpair: ", strerror(errno)));
  }
  absl::StatusOr<std::string> folder = NewFolder(scratch_prefix);
  if (!folder.ok()) {
    close(ends[0]);
    close(ends[1]);
    return folder.status();
  }
  const std::string& scratch = *folder;
  absl::StatusOr<Child> child = StartChild(limits, scratch, ends[1]);
  close(ends[1]);
  if (!child.ok()) {
    close(ends[0]);
    std::error_code error;  // one left behind is nobody's, and the next goes by
    std::filesystem::remove_all(scratch, error);
    return CannotStart(absl::StrCat("worker ", child.status().message()));
  }
  auto worker = absl::WrapUnique(
      new WorkerProcess(limits, scratch, *std::move(child), ends[0]));
  if (limits.memory_bytes > 0) {
    // Memory that can be written, not addresses: CUDA's driver reserves many
    // times what a device has.
    SetLimit(worker->pid(), RLIMIT_DATA, limits.memory_bytes);
  }
  SetLimit(worker->pid(), RLIMIT_CORE, 0);

  wire::WorkRequest hello;
  hello.mutable_hello();
  absl::StatusOr<wire::WorkReply> reply = worker->CallWithin(kHelloWall, hello);
  if (!reply.ok()) return CannotStart(reply.status().message());
  if (!reply->has_hello()) {
    return CannotStart(absl::StrCat("worker ", limits.program,
                                    ": no hello in its first reply"));
  }
  worker->hello_ = std::move(*reply->mutable_hello());
  return std::shared_ptr<WorkerProcess>(std::move(worker));
}

WorkerProcess::WorkerProcess(const WorkerLimits& limits, std::string scratch,
                             Child child, int socket_fd)
    : limits_(limits),
      scratch_(std::move(scratch)),
      child_(std::move(child)),
      socket_fd_(socket_fd) {}

WorkerProcess::~WorkerProcess() {
  child_.End();
  close(socket_fd_);
  std::error_code error;  // the next daemon removes a folder left behind
  std::filesystem::remove_all(scratch_, error);
}

bool WorkerProcess::HasFolder() const {
  return access(scratch_.c_str(), W_OK | X_OK) == 0;
}

absl::StatusOr<wire::WorkReply> WorkerProcess::CallWithin(
    absl::Duration wall, const wire::WorkRequest& request) {
  const std::string subject =
      absl::StrCat("worker ", limits_.program, " pid ", pid());
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

void WorkerProcess::Interrupt() { shutdown(socket_fd_, SHUT_RDWR); }

// The limit counts from the start of the process, so it moves with each call.
void WorkerProcess::LimitCpu() {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid(), &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    return;  // it has ended; the call will see that
  }
  const int64_t seconds = used.tv_sec + 1 + absl::ToInt64Seconds(limits_.cpu);
  const rlimit limit = {.rlim_cur = static_cast<rlim_t>(seconds),
                        .rlim_max = RLIM_INFINITY};
  prlimit(pid(), RLIMIT_CPU, &limit, nullptr);
}

std::string WorkerProcess::PostMortem() {
  pollfd entry = {.fd = socket_fd_, .events = 0, .revents = 0};
  const bool closed = poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP);
  const bool killed =
      !child_.EndsWithin(closed ? kExitGrace : absl::ZeroDuration());
  const int ended = child_.End();
  const std::string tail = TailOf(absl::StrCat(scratch_, "/", kStderrName));
  return absl::StrCat(
      killed ? "killed" : HowItEnded(ended),
      tail.empty() ? "; stderr is empty" : "; stderr ends: ", tail);
}

}  // namespace kiln

#include "proto/jail/jailed_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/jail/compiler_folders.h"

namespace kiln {
namespace {

// Where a child finds its end of the socketpair: proto/worker.proto.
constexpr int kChildSocketFd = 3;
constexpr int64_t kTailBytes = 2048;
constexpr int64_t kMaxReportBytes = 64 << 10;
// How long a worker whose socket closed may take to be seen as ended.
constexpr absl::Duration kExitGrace = absl::Milliseconds(500);
// How long a jailer may take to end its worker; then it is killed itself, and
// the kernel ends the rest.
constexpr absl::Duration kEndGrace = absl::Seconds(20);

absl::Status CannotStart(absl::string_view program, absl::string_view why) {
  return MakeError(ErrorReason::kNoToolchain,
                   absl::StrCat("worker ", program, ": ", why));
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
  if (!error) return std::filesystem::absolute(path, error).string();
  return MakeError(
      ErrorReason::kStorage,
      absl::StrCat("scratch folder ", path, ": ", error.message(),
                   error == std::errc::no_space_on_device
                       ? "; free space on its disk, or name another with "
                         "--data-folder"
                       : ""));
}

// Beside the worker's folder, and without a name from the beginning.
absl::StatusOr<int> UnnamedFile(const std::string& prefix) {
  std::string path = absl::StrCat(prefix, "-stderr-XXXXXX");
  const int fd = mkostemp(path.data(), O_APPEND | O_CLOEXEC);
  if (fd < 0) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat(path, ": ", strerror(errno)));
  }
  unlink(path.c_str());
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JailedChild>> JailedChild::Start(
    JailedChildOptions options, absl::Duration patience) {
  auto started = absl::WrapUnique(new JailedChild());
  ASSIGN_OR_RETURN(started->scratch_, NewFolder(options.scratch_prefix));
  ASSIGN_OR_RETURN(started->stderr_fd_, UnnamedFile(options.scratch_prefix));
  options.jail.scratch = started->scratch_;
  for (std::string& folder : CompilerFolders(options.env)) {
    options.jail.readable.push_back(std::move(folder));
  }
  RETURN_IF_ERROR(started->Launch(options));
  RETURN_IF_ERROR(started->HearReport(options.program, patience));
  return started;
}

absl::Status JailedChild::Launch(const JailedChildOptions& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return CannotStart(options.program,
                       absl::StrCat("socketpair: ", strerror(errno)));
  }
  socket_fd_ = ends[0];
  ChildOptions child;
  child.program = options.program;
  child.args = JailWords(options.jail);
  child.args.insert(child.args.end(), options.args.begin(), options.args.end());
  child.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C",
               absl::StrCat("TMPDIR=", scratch_),
               absl::StrCat("HOME=", scratch_)};
  child.env.insert(child.env.end(), options.env.begin(), options.env.end());
  child.folder = scratch_;
  child.descriptors = {{.ours = stderr_fd_, .childs = 1},
                       {.ours = stderr_fd_, .childs = 2},
                       {.ours = ends[1], .childs = kChildSocketFd}};
  absl::StatusOr<Child> process = Child::Start(child);
  close(ends[1]);
  if (!process.ok()) {
    return MakeError(ErrorReason::kNoToolchain,
                     absl::StrCat("worker ", process.status().message()));
  }
  child_ = std::make_unique<Child>(*std::move(process));
  return absl::OkStatus();
}

absl::Status JailedChild::HearReport(const std::string& program,
                                     absl::Duration patience) {
  const absl::StatusOr<std::string> text =
      ReadFrame(socket_fd_,
                {.deadline = SteadyIn(patience), .max_bytes = kMaxReportBytes});
  const absl::StatusOr<JailReport> report =
      text.ok() ? JailReportFrom(*text) : text.status();
  if (!report.ok()) {
    return CannotStart(
        program, absl::StrCat(report.status().message(), "; ", PostMortem()));
  }
  RETURN_IF_ERROR(report->status);
  report_ = *report;
  return absl::OkStatus();
}

JailedChild::~JailedChild() {
  if (child_ != nullptr) End();
  if (socket_fd_ >= 0) close(socket_fd_);
  if (stderr_fd_ >= 0) close(stderr_fd_);
  std::error_code error;  // the next daemon removes a folder left behind
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_, error);
}

absl::Duration JailedChild::UsedCpu() const {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid(), &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    return absl::ZeroDuration();
  }
  return absl::DurationFromTimespec(used);
}

void JailedChild::Interrupt() { shutdown(socket_fd_, SHUT_RDWR); }

int JailedChild::End() {
  if (!child_->HasEnded()) {
    kill(child_->pid(), SIGTERM);
    child_->EndsWithin(kEndGrace);
  }
  return child_->End();
}

std::string JailedChild::PostMortem() {
  pollfd entry = {.fd = socket_fd_, .events = 0, .revents = 0};
  const bool closed = poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP);
  const bool killed =
      !child_->EndsWithin(closed ? kExitGrace : absl::ZeroDuration());
  const int ended = End();
  const std::string tail = StderrTail();
  return absl::StrCat(
      killed ? "killed" : HowItEnded(ended),
      tail.empty() ? "; stderr is empty" : "; stderr ends: ", tail);
}

// Without the line that the cut went through.
std::string JailedChild::StderrTail() const {
  struct stat found = {};
  if (fstat(stderr_fd_, &found) != 0) return "";
  const int64_t from = std::max<int64_t>(0, found.st_size - kTailBytes);
  std::string tail(kTailBytes, '\0');
  const ssize_t bytes = pread(stderr_fd_, tail.data(), tail.size(), from);
  tail.resize(static_cast<size_t>(std::max<ssize_t>(0, bytes)));
  const size_t line = tail.find('\n');
  if (from > 0 && line != std::string::npos) tail.erase(0, line + 1);
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail;
}

}  // namespace kiln

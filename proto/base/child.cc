#include "proto/base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Below every number that a child is given, so that putting one in its place
// closes none that is still to be placed.
constexpr int kFirstSafeFd = 16;

// The list that exec wants: pointers into `strings`, closed by a null.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Copies of descriptors, closed at the end.
class SafeCopies {
 public:
  SafeCopies() = default;
  SafeCopies(const SafeCopies&) = delete;
  SafeCopies& operator=(const SafeCopies&) = delete;
  ~SafeCopies() {
    for (const int fd : fds_) close(fd);
  }

  // The copy, or -1 with errno.
  int Of(int fd) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, kFirstSafeFd);
    if (copy >= 0) fds_.push_back(copy);
    return copy;
  }

 private:
  std::vector<int> fds_;
};

// The actions between fork and exec, in order. Owns what posix_spawn wants to
// have initialized and destroyed.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // 0 or an errno.
  int Fill(const ChildOptions& options) {
    int last = options.output_file.empty() ? 0 : 2;
    bool has_input = false;
    for (const ChildOptions::Descriptor& given : options.descriptors) {
      const int copy = copies_.Of(given.ours);
      if (copy < 0) return errno;
      Note(posix_spawn_file_actions_adddup2(&actions_, copy, given.childs));
      last = std::max(last, given.childs);
      has_input = has_input || given.childs == 0;
    }
    if (!has_input) {
      Note(posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY,
                                            0));
    }
    if (!options.output_file.empty()) {
      Note(posix_spawn_file_actions_addopen(
          &actions_, 1, options.output_file.c_str(),
          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600));
      Note(posix_spawn_file_actions_adddup2(&actions_, 1, 2));
    }
    Note(posix_spawn_file_actions_addclosefrom_np(&actions_, last + 1));
    if (!options.folder.empty()) {
      Note(posix_spawn_file_actions_addchdir_np(&actions_,
                                                options.folder.c_str()));
    }
    FillAttributes(options.group);
    return error_;
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  void Note(int error) {
    if (error_ == 0) error_ = error;
  }

  void FillAttributes(ChildGroup group) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    Note(posix_spawnattr_setsigmask(&attributes_, &none));
    Note(posix_spawnattr_setsigdefault(&attributes_, &all));
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (group == ChildGroup::kOwn) {
      Note(posix_spawnattr_setpgroup(&attributes_, 0));
      flags |= POSIX_SPAWN_SETPGROUP;
    }
    Note(posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
  }

  SafeCopies copies_;
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

// A descriptor that becomes readable when the process ends. By number: the
// header of glibc 2.36 declares it without C linkage.
int OpenPidfd(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// Past libc, as it was opened: ThreadSanitizer keeps a history by descriptor
// number, and a close without the open is held against the number's last owner.
void ClosePidfd(int pidfd) { syscall(SYS_close, pidfd); }

}  // namespace

absl::StatusOr<Child> Child::Start(const ChildOptions& options) {
  SpawnPlan plan;
  // The system would look from the child's folder.
  std::error_code unknown;
  const std::filesystem::path whole =
      std::filesystem::absolute(options.program, unknown);
  const std::string program = unknown ? options.program : whole.string();
  std::vector<std::string> args = {program};
  args.insert(args.end(), options.args.begin(), options.args.end());
  std::vector<std::string> env = options.env;
  pid_t pid = -1;
  int error = plan.Fill(options);
  if (error == 0) {
    error =
        posix_spawn(&pid, program.c_str(), plan.actions(), plan.attributes(),
                    Pointers(args).data(), Pointers(env).data());
  }
  if (error != 0) return absl::ErrnoToStatus(error, program);
  return Child(pid, options.group);
}

bool Child::HasEnded() const {
  if (pid_ < 0) return true;
  siginfo_t ended = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &ended,
                WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == pid_;
}

bool Child::EndsWithin(absl::Duration grace) const {
  if (HasEnded()) return true;
  const int pidfd = OpenPidfd(pid_);
  if (pidfd < 0) return false;
  pollfd entry = {.fd = pidfd, .events = POLLIN, .revents = 0};
  poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(grace)));
  ClosePidfd(pidfd);
  return HasEnded();
}

int Child::End() {
  if (pid_ >= 0) kill(group_ == ChildGroup::kOwn ? -pid_ : pid_, SIGKILL);
  return Reap();
}

int Child::Reap() {
  if (pid_ < 0) return status_;
  while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status_;
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("ended by signal ", WTERMSIG(wait_status), " (",
                        strsignal(WTERMSIG(wait_status)), ")");
  }
  return absl::StrCat("exited with ", WEXITSTATUS(wait_status));
}

}  // namespace kiln

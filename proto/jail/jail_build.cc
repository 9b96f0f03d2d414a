#include "proto/jail/jail_build.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status.h"
#include "proto/jail/jail_identity.h"
#include "proto/jail/jail_landlock.h"
#include "proto/jail/jail_root.h"
#include "proto/jail/jail_syscalls.h"
#include "proto/jail/jail_view.h"
#include "proto/jail/lowest_priority.h"

namespace kiln {
namespace {

constexpr int kNamespaces =
    CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr absl::string_view kReady = "ready";
constexpr char kMapped[] = "mapped";

absl::Status SystemError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, what);
}

// What one attempt needs on its way in.
struct Attempt {
  const JailSpec& spec;
  const JailLevel level;
  const JailView view;
  const std::optional<uid_t> user;
  const bool own_users;  // a user namespace
  int news = -1;         // the inner end
};

[[noreturn]] void GiveUp(const Attempt& attempt, const absl::Status& why) {
  const std::string text(why.message());
  send(attempt.news, text.data(), text.size(), MSG_NOSIGNAL);
  _exit(1);
}

void RequireOk(const Attempt& attempt, const absl::Status& status) {
  if (!status.ok()) GiveUp(attempt, status);
}

absl::Status WriteText(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path);
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  if (written >= 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, path);
}

// The user namespace of `child` has one user, its own one if there is one: for a
// root that may become anybody. Else it is whom it was. Root is not there.
absl::Status MapUser(pid_t child, std::optional<uid_t> user) {
  const std::string process = absl::StrCat("/proc/", child);
  if (!user.has_value()) {
    RETURN_IF_ERROR(WriteText(process + "/setgroups", "deny"));
  }
  const uid_t uid = user.value_or(geteuid());
  const gid_t gid = user.value_or(getegid());
  RETURN_IF_ERROR(
      WriteText(process + "/uid_map", absl::StrCat(uid, " ", uid, " 1\n")));
  return WriteText(process + "/gid_map", absl::StrCat(gid, " ", gid, " 1\n"));
}

void AwaitMapping(const Attempt& attempt) {
  char word[sizeof(kMapped)];
  ssize_t bytes = -1;
  do {
    bytes = recv(attempt.news, word, sizeof(word), 0);
  } while (bytes < 0 && errno == EINTR);
  if (bytes <= 0) _exit(1);  // the jailer is gone
}

// Of the worker and, beside it, its init.
void LimitAndFilter(const Attempt& attempt) {
  const bool alone = attempt.user.has_value() || attempt.own_users;
  RequireOk(attempt, LimitSelf(attempt.spec, alone));
  const bool own_processes = attempt.level == JailLevel::kNamespaces;
  const absl::Status filtered = RefuseSystemCalls(
      own_processes ? OwnGroups::kAllowed : OwnGroups::kRefused,
      attempt.spec.gpu ? Sockets::kUnconnected : Sockets::kRefused);
  if (attempt.level >= JailLevel::kLandlock) RequireOk(attempt, filtered);
}

int RulesetFor(const Attempt& attempt) {
  if (attempt.level < JailLevel::kLandlock) return -1;
  const absl::StatusOr<int> ruleset = OpenRuleset(attempt.view);
  // Without it, a root of its own says the same.
  if (attempt.level != JailLevel::kNamespaces) {
    RequireOk(attempt, ruleset.status());
  }
  return ruleset.value_or(-1);
}

// The worker tells the jailer that it is about to return; the kernel adds its
// number.
void SayReady(const Attempt& attempt) {
  const bool heard =
      send(attempt.news, kReady.data(), kReady.size(), MSG_NOSIGNAL) >= 0;
  if (!heard) _exit(1);  // the jailer is gone
  close(attempt.news);
}

// The last steps, in the worker itself: its init stays ready to end it, and
// Landlock keeps it from init too. `ruleset`: made while all of the view could be
// walked to; negative: none.
void EndEntry(const Attempt& attempt, int ruleset) {
  if (ruleset >= 0) {
    if (attempt.spec.gpu) RequireOk(attempt, AllowOwnProcess(ruleset));
    RequireOk(attempt, KeepTo(ruleset));
  }
  SayReady(attempt);
  if (!attempt.spec.lowest_after_hello) TakeLowestPriority();
}

// The first process of the namespaces: waits for the worker and takes in what it
// leaves.
[[noreturn]] void BeInit(const Attempt& attempt, pid_t worker) {
  dup2(attempt.news, 0);
  close_range(1, ~0U, 0);
  int status = 0;
  pid_t ended = 0;
  while (ended != worker) {
    ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) break;
  }
  send(0, &status, sizeof(status), MSG_NOSIGNAL);
  _exit(0);
}

// Returns in the worker.
void StartInside(const Attempt& attempt) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (attempt.own_users) AwaitMapping(attempt);
  // Its own user, before a root that is made of that user's rights or after one
  // that is made of root's.
  const auto [builder, user] =
      attempt.own_users ? std::pair(attempt.user, std::optional<uid_t>())
                        : std::pair(std::optional<uid_t>(), attempt.user);
  RequireOk(attempt, MakeJailRoot(attempt.view, attempt.spec.scratch, builder));
  const int ruleset = RulesetFor(attempt);
  RequireOk(attempt, DropRights(user));
  // A change of user forgets it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  LimitAndFilter(attempt);
  // The worker is of the same user: it may open no memory of this process.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const pid_t worker = fork();
  if (worker < 0) GiveUp(attempt, SystemError("fork"));
  if (worker != 0) BeInit(attempt, worker);
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  setpgid(0, 0);
  EndEntry(attempt, ruleset);
}

// Where its own user can't walk to its scratch folder from the root, it uses the
// folder that it stands in.
void UseScratchAsItStands(const JailSpec& spec) {
  if (access(spec.scratch.c_str(), W_OK) == 0) return;
  setenv("TMPDIR", ".", 1);
  setenv("HOME", ".", 1);
}

// Returns in the worker.
void StartHere(const Attempt& attempt) {
  setpgid(0, 0);
  const int ruleset = RulesetFor(attempt);
  RequireOk(attempt, DropRights(attempt.user));
  UseScratchAsItStands(attempt.spec);
  // A change of user forgets it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  LimitAndFilter(attempt);
  EndEntry(attempt, ruleset);
}

// Like fork, into new namespaces.
pid_t CloneInto(int namespaces) {
  return static_cast<pid_t>(
      syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, 0));
}

// What the inside says first, and who says it.
absl::StatusOr<pid_t> HearWorker(int news) {
  char text[1024];
  char control[CMSG_SPACE(sizeof(ucred))];
  iovec data = {.iov_base = text, .iov_len = sizeof(text)};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t bytes = -1;
  do {
    bytes = recvmsg(news, &message, 0);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return SystemError("news of the worker");
  if (bytes == 0) return absl::UnavailableError("it ended without a word");
  const absl::string_view said(text, static_cast<size_t>(bytes));
  if (said != kReady) return absl::UnavailableError(said);
  ucred sender = {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_CREDENTIALS) {
    return absl::InternalError("the worker's number is unknown");
  }
  std::memcpy(&sender, CMSG_DATA(header), sizeof(sender));
  return sender.pid;
}

absl::StatusOr<pid_t> MapAndHear(pid_t child, std::optional<uid_t> user,
                                 int news) {
  RETURN_IF_ERROR(MapUser(child, user));
  if (send(news, kMapped, sizeof(kMapped), MSG_NOSIGNAL) < 0) {
    return SystemError("word to the worker");
  }
  return HearWorker(news);
}

absl::StatusOr<JailedProcess> Fork(const JailSpec& spec, JailLevel level,
                                   bool own_users) {
  Attempt attempt = {.spec = spec,
                     .level = level,
                     .view = ViewOf(spec),
                     .user = OwnUser(getpid()),
                     .own_users = own_users};
  // The worker writes there as its own user.
  if (attempt.user.has_value() &&
      chown(spec.scratch.c_str(), *attempt.user, *attempt.user) != 0) {
    return SystemError(spec.scratch);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("socketpair");
  }
  const int on = 1;
  setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  attempt.news = ends[1];
  const bool namespaces = level == JailLevel::kNamespaces;
  const pid_t child =
      namespaces ? CloneInto(kNamespaces | (own_users ? CLONE_NEWUSER : 0))
                 : fork();
  if (child == 0) {
    close(ends[0]);
    namespaces ? StartInside(attempt) : StartHere(attempt);
    return JailedProcess{.is_worker = true};
  }
  const int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::ErrnoToStatus(error, own_users ? "user namespace" : "clone");
  }
  const absl::StatusOr<pid_t> worker =
      own_users ? MapAndHear(child, attempt.user, ends[0])
                : HearWorker(ends[0]);
  if (!worker.ok()) {
    close(ends[0]);
    kill(child, SIGKILL);
    int ignored = 0;
    waitpid(child, &ignored, 0);
    return worker.status();
  }
  if (!namespaces) {
    close(ends[0]);
    ends[0] = -1;
  }
  return JailedProcess{.child = child, .worker = *worker, .news = ends[0]};
}

}  // namespace

absl::StatusOr<JailedProcess> MakeJailed(const JailSpec& spec,
                                         JailLevel level) {
  if (level != JailLevel::kNamespaces) {
    return Fork(spec, level, /*own_users=*/false);
  }
  // A root that may do it itself needs no user namespace; everybody else asks
  // for one.
  if (geteuid() == 0) {
    absl::StatusOr<JailedProcess> made = Fork(spec, level, /*own_users=*/false);
    if (made.ok()) return made;
  }
  return Fork(spec, level, /*own_users=*/true);
}

}  // namespace kiln

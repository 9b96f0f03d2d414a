#include "proto/jail/enter_jail.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/jail/jail_build.h"
#include "proto/jail/jail_identity.h"
#include "proto/jail/jail_report.h"
#include "proto/jail/jail_spec.h"
#include "proto/jail/own_memory.h"

namespace kiln {
namespace {

// proto/worker.proto.
constexpr int kWorkerSocket = 3;
constexpr int kNoJail = 2;

// A worker that runs, as its jailer knows it.
struct Inmate {
  pid_t child = -1;  // of the jailer: init, or the worker itself
  int news = -1;     // where init tells how the worker ended
  JailReport report;
};

// Weakest last. A level that could not be made says why in `lacks`.
std::optional<Inmate> Admit(const JailSpec& spec, std::string& lacks) {
  for (int level = static_cast<int>(spec.levels.strongest);
       level >= static_cast<int>(spec.levels.weakest); --level) {
    Inmate inmate;
    inmate.report.level = static_cast<JailLevel>(level);
    absl::StatusOr<JailedProcess> made = MakeJailed(spec, inmate.report.level);
    if (made.ok()) {
      if (made->is_worker) return std::nullopt;
      inmate.child = made->child;
      inmate.news = made->news;
      inmate.report.worker = made->worker;
      inmate.report.lacks = lacks;
      return inmate;
    }
    absl::StrAppend(&lacks, lacks.empty() ? "" : "; ",
                    JailLevelName(inmate.report.level), ": ",
                    made.status().message());
  }
  Inmate none;
  none.report.status = MakeError(
      ErrorReason::kPermission,
      absl::StrCat("sandbox: ", JailLevelName(spec.levels.weakest),
                   " is required, and this machine grants less: ", lacks));
  return none;
}

// A worker's other processes, where they have no namespace that ends with it:
// those that left its group came to this process.
void EndStrays() {
  while (true) {
    FILE* children = fopen(
        absl::StrCat("/proc/self/task/", getpid(), "/children").c_str(), "re");
    if (children != nullptr) {
      int stray = 0;
      while (fscanf(children, "%d", &stray) == 1) kill(stray, SIGKILL);
      fclose(children);
    }
    int ignored = 0;
    if (waitpid(-1, &ignored, children == nullptr ? WNOHANG : 0) <= 0) return;
  }
}

// Waits until the worker ends, or is to; everything of it is gone when this
// returns. The status of waitpid.
int Guard(const Inmate& inmate, int signals) {
  const bool own_group = inmate.news < 0;
  const auto end = [&] {
    kill(own_group ? -inmate.child : inmate.child, SIGKILL);
  };
  pollfd entries[2] = {{.fd = signals, .events = POLLIN, .revents = 0},
                       {.fd = kWorkerSocket, .events = 0, .revents = 0}};
  int status = 0;
  bool over = false;
  while (waitpid(inmate.child, &status, over ? 0 : WNOHANG) == 0) {
    if (poll(entries, 2, -1) <= 0) continue;
    signalfd_siginfo signal = {};
    if (entries[0].revents != 0 &&
        read(signals, &signal, sizeof(signal)) == sizeof(signal)) {
      over = signal.ssi_signo == SIGTERM;
    }
    if (entries[1].revents != 0) over = true;
    if (over) end();
  }
  if (own_group) {
    end();
    EndStrays();
    return status;
  }
  // The worker's own end, unless init was ended before it.
  int told = 0;
  if (recv(inmate.news, &told, sizeof(told), MSG_DONTWAIT) == sizeof(told)) {
    return told;
  }
  return status;
}

[[noreturn]] void EndAs(int status) {
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &own, nullptr);
    kill(getpid(), WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

[[noreturn]] void Refuse(absl::string_view why) {
  std::fprintf(stderr, "kiln-worker: %.*s\n", static_cast<int>(why.size()),
               why.data());
  _exit(kNoJail);
}

}  // namespace

std::vector<std::string> EnterJail(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const absl::StatusOr<JailSpec> spec = TakeJailWords(words);
  if (!spec.ok() || fcntl(kWorkerSocket, F_GETFD) < 0) {
    Refuse("kilnd and clients start this program, people do not");
  }
  // Before the worker is there, so that its end is not missed.
  sigset_t ours;
  sigset_t before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGCHLD);
  sigaddset(&ours, SIGTERM);
  sigprocmask(SIG_BLOCK, &ours, &before);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  BeFirstToGo();
  std::string lacks;
  const std::optional<Inmate> inmate = Admit(*spec, lacks);
  if (!inmate.has_value()) {  // we are the worker
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return words;
  }
  // The worker reads nothing before this process has told of it.
  KeepMemoryToItself();
  const absl::Status told =
      WriteFrame(kWorkerSocket, JailReportText(inmate->report));
  if (!inmate->report.status.ok()) Refuse(inmate->report.status.message());
  if (!told.ok()) kill(getpid(), SIGTERM);
  const int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  EndAs(Guard(*inmate, signals));
}

}  // namespace kiln

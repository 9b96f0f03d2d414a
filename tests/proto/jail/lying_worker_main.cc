// A worker that means harm, for tests of jails: it enters the jail that it is
// given, as every worker does, and then tries what each frame tells it to. The
// answer is "ok" and what it got, or the system's reason why not.
//
//   read PATH         the first bytes of a file
//   list PATH         the names in a folder
//   write PATH        makes a file
//   open PATH         a file to write, and leaves it as it is
//   connect PATH      to a Unix socket
//   send PATH         a datagram to a Unix socket, by each way to have one of
//                     one's own; which did it, else why not
//   dial PORT         to a TCP port of 127.0.0.1
//   signal PID        ends another process
//   change PID        another process' limits, priority and cores, or its own
//                     with 0; which calls did it
//   hurry             which ways out of the lowest priority it found
//   escape PIPE       starts a child in a session of its own, which never ends
//                     and holds the pipe
//   bomb              forks until it may not; how often it could
//   eat               takes memory until it gets none; how many MiB it got
//   share             likewise, of shared memory
//   files             opens files until it may not; how many it could
//   grow              writes one file until it may not; how many MiB it holds
//   link PATH         puts a link to PATH in the place of each of its files, and
//                     says a word on stderr
//   oom               is no longer first to go when memory ends
//   who               its user and its priority
//   spin              takes processor time for ever
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/frame.h"
#include "proto/jail/enter_jail.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

std::string Why() { return std::strerror(errno); }

std::string Read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  char bytes[256];
  const ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
  return n < 0 ? Why() : absl::StrCat("ok ", std::string(bytes, n));
}

std::string List(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return Why();
  std::string names = "ok";
  while (const dirent* entry = readdir(folder)) {
    absl::StrAppend(&names, " ", entry->d_name);
  }
  closedir(folder);
  return names;
}

std::string Write(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  return fd < 0 || write(fd, "x", 1) != 1 ? Why() : "ok";
}

std::string Open(const std::string& path) {
  return open(path.c_str(), O_WRONLY) < 0 ? Why() : "ok";
}

std::string Connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
  return fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address),
                           sizeof(address)) != 0
             ? Why()
             : "ok";
}

std::string Send(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX};
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
  // Linux makes a datagram socket of a raw one.
  for (const int type : {SOCK_DGRAM, SOCK_RAW}) {
    int pair[2] = {-1, -1};
    const int one = socket(AF_UNIX, type, 0);
    if (one < 0 && errno != EPERM) return Why();
    if (socketpair(AF_UNIX, type, 0, pair) != 0 && errno != EPERM) return Why();
    for (const int fd : {one, pair[0]}) {
      if (sendto(fd, "x", 1, 0, reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) == 1) {
        return absl::StrCat("ok ", fd == one ? "one" : "a pair", " of ", type);
      }
      if (fd >= 0) return Why();
    }
  }
  return "none of its own";
}

std::string Dial(const std::string& port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(atoi(port.c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address),
                           sizeof(address)) != 0
             ? Why()
             : "ok";
}

std::string Change(pid_t pid) {
  const rlimit files = {.rlim_cur = 64, .rlim_max = 64};
  const sched_param none = {};
  // struct sched_attr: its size, SCHED_BATCH, and zeros.
  uint32_t attributes[12] = {sizeof(attributes), SCHED_BATCH};
  cpu_set_t cores;
  sched_getaffinity(0, sizeof(cores), &cores);
  constexpr int kOfProcess = 1;
  constexpr int kIdleDisk = 3 << 13;
  std::string did = "ok";
  const auto count = [&did](const char* call, int64_t result) {
    if (result == 0) absl::StrAppend(&did, " ", call);
  };
  count("prlimit", prlimit(pid, RLIMIT_NOFILE, &files, nullptr));
  count("setscheduler", sched_setscheduler(pid, SCHED_BATCH, &none));
  count("setparam", sched_setparam(pid, &none));
  count("setattr", syscall(SYS_sched_setattr, pid, attributes, 0));
  count("setaffinity", sched_setaffinity(pid, sizeof(cores), &cores));
  count("setpriority", setpriority(PRIO_PROCESS, pid, 19));
  count("ioprio", syscall(SYS_ioprio_set, kOfProcess, pid, kIdleDisk));
  count("move_pages",
        syscall(SYS_move_pages, pid, 0, nullptr, nullptr, nullptr, 0));
  // All of its user's.
  count("setpriority of a user", setpriority(PRIO_USER, 0, 19));
  return did;
}

std::string Escape(const std::string& pipe) {
  const int held = open(pipe.c_str(), O_WRONLY);
  if (held < 0) return absl::StrCat(pipe, ": ", Why());
  const pid_t child = fork();
  if (child < 0) return Why();
  if (child == 0) {
    setsid();
    // Its parent is gone, too, when the grandchild says so.
    if (fork() != 0) _exit(0);
    setsid();
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (write(held, "x", 1) != 1) _exit(1);
    close(kSocketFd);
    while (true) pause();
  }
  close(held);
  return "ok";
}

std::string Hurry() {
  std::string did = "ok";
  const auto count = [&did](const char* what, int64_t result) {
    if (result == 0) absl::StrAppend(&did, " ", what);
  };
  const sched_param none = {};
  const sched_param first = {.sched_priority = 1};
  count("other", sched_setscheduler(0, SCHED_OTHER, &none));
  count("idle", sched_setscheduler(0, SCHED_IDLE, &none));
  count("fifo", sched_setscheduler(0, SCHED_FIFO, &first));
  count("nice", setpriority(PRIO_PROCESS, 0, 0));
  // The kernel may give each session a weight of its own.
  const pid_t child = fork();
  if (child == 0) _exit(setsid() < 0 ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  count("session", status);
  return did;
}

std::string Bomb() {
  int forked = 0;
  while (true) {
    const pid_t child = fork();
    if (child < 0) return absl::StrCat("ok ", forked);
    if (child == 0) {
      close(kSocketFd);
      while (true) pause();
    }
    if (++forked == 100000) return "ok without end";
  }
}

std::string Eat(int flags) {
  constexpr size_t kPiece = size_t{16} << 20;
  constexpr int kPieces = 6400;  // 100 GB
  int pieces = 0;
  while (pieces < kPieces) {
    void* piece = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE,
                       MAP_ANONYMOUS | flags, -1, 0);
    if (piece == MAP_FAILED) break;
    std::memset(piece, 1, kPiece);
    ++pieces;
  }
  return absl::StrCat("ok ", pieces * 16);
}

std::string Files() {
  int files = 0;
  while (files < 1000000 && open("/dev/null", O_RDONLY) >= 0) ++files;
  return absl::StrCat("ok ", files);
}

std::string Grow() {
  signal(SIGXFSZ, SIG_IGN);
  const int fd = open("grown", O_WRONLY | O_CREAT, 0600);
  // Holes are as good: they count as the file's bytes.
  int64_t size = 0;
  constexpr int64_t kStep = int64_t{64} << 20;
  while (size < (int64_t{1} << 40) && ftruncate(fd, size + kStep) == 0) {
    size += kStep;
  }
  return absl::StrCat("ok ", size >> 20);
}

std::string Link(const std::string& path) {
  DIR* folder = opendir(".");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') unlink(entry->d_name);
  }
  closedir(folder);
  for (const char* name : {"stderr", "stderr.log", "log"}) {
    if (symlink(path.c_str(), name) != 0) return Why();
  }
  std::fprintf(stderr, "lying worker: nothing to see\n");
  return "ok";
}

std::string StayWhenMemoryEnds() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY);
  return fd < 0 || write(fd, "0", 1) != 1 ? Why() : "ok";
}

std::string Who() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);
  return absl::StrCat("ok uid ", getuid(), " policy ", sched_getscheduler(0),
                      " nice ", getpriority(PRIO_PROCESS, 0), " cores ",
                      CPU_COUNT(&cores));
}

std::string Try(const std::string& order) {
  const std::pair<std::string, std::string> words =
      absl::StrSplit(order, absl::MaxSplits(' ', 1));
  const auto& [word, argument] = words;
  if (word == "read") return Read(argument);
  if (word == "list") return List(argument);
  if (word == "write") return Write(argument);
  if (word == "open") return Open(argument);
  if (word == "connect") return Connect(argument);
  if (word == "send") return Send(argument);
  if (word == "dial") return Dial(argument);
  if (word == "signal") {
    return kill(atoi(argument.c_str()), SIGKILL) == 0 ? "ok" : Why();
  }
  if (word == "change") return Change(atoi(argument.c_str()));
  if (word == "escape") return Escape(argument);
  if (word == "hurry") return Hurry();
  if (word == "bomb") return Bomb();
  if (word == "eat") return Eat(MAP_PRIVATE);
  if (word == "share") return Eat(MAP_SHARED);
  if (word == "files") return Files();
  if (word == "grow") return Grow();
  if (word == "link") return Link(argument);
  if (word == "oom") return StayWhenMemoryEnds();
  if (word == "who") return Who();
  while (word == "spin") {
  }
  return "no such order";
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::EnterJail(argc, argv);
  while (true) {
    const auto order = kiln::ReadFrame(kiln::kSocketFd);
    if (!order.ok()) return 0;
    if (!kiln::WriteFrame(kiln::kSocketFd, kiln::Try(*order)).ok()) return 0;
  }
}

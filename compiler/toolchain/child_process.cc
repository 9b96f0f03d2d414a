#include "compiler/toolchain/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// A descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

absl::Status SystemError(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(error)));
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings)
    out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

// Feeds `input` and collects output until the child has closed its side.
// The input side is a socket, so that a child that stops reading gives EPIPE
// and no signal.
std::string Exchange(Fd& to_child, Fd& from_child, absl::string_view input) {
  std::string output;
  char chunk[1 << 14];
  while (true) {
    pollfd fds[2] = {{from_child.get(), POLLIN, 0},
                     {to_child.get(), POLLOUT, 0}};
    if (input.empty()) to_child.Close();
    const int count = to_child.get() >= 0 ? 2 : 1;
    if (poll(fds, count, -1) < 0 && errno != EINTR) return output;
    if (count == 2 && fds[1].revents != 0) {
      const ssize_t n = send(to_child.get(), input.data(), input.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) input.remove_prefix(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) input = {};
    }
    if (fds[0].revents != 0) {
      const ssize_t n = read(from_child.get(), chunk, sizeof(chunk));
      if (n == 0) return output;
      if (n > 0) output.append(chunk, n);
    }
  }
}

}  // namespace

absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& argv,
                                     const std::vector<std::string>& env,
                                     absl::string_view input) {
  int in[2], out[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return SystemError("socketpair", errno);
  Fd child_in(in[0]), to_child(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  Fd from_child(out[0]), child_out(out[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), 2);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0].c_str(), &actions, nullptr,
                                Pointers(argv).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return SystemError(argv[0], error);
  child_in.Close();
  child_out.Close();

  ChildResult result;
  result.output = Exchange(to_child, from_child, input);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return SystemError("waitpid", errno);
  }
  result.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace kiln

#include "compiler/toolchain/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/child.h"

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

  ChildOptions options;
  options.program = argv[0];
  options.args.assign(argv.begin() + 1, argv.end());
  options.env = env;
  options.descriptors = {{.ours = child_in.get(), .childs = 0},
                         {.ours = child_out.get(), .childs = 1},
                         {.ours = child_out.get(), .childs = 2}};
  // In the worker's group: whoever ends a worker ends its compilers.
  options.group = ChildGroup::kOurs;
  absl::StatusOr<Child> child = Child::Start(options);
  if (!child.ok()) return absl::InternalError(child.status().message());
  child_in.Close();
  child_out.Close();

  ChildResult result;
  result.output = Exchange(to_child, from_child, input);
  const int status = child->Wait();
  result.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace kiln

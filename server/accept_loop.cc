#include "server/accept_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Start(
    ListenSocket socket, uid_t allowed_uid, Counters& counters,
    std::function<void(int fd)> take) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) {
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("socket ", socket.path(), ": eventfd: ", strerror(errno)));
  }
  return absl::WrapUnique(new AcceptLoop(std::move(socket), allowed_uid,
                                         counters, std::move(take), stop_fd));
}

AcceptLoop::AcceptLoop(ListenSocket socket, uid_t allowed_uid,
                       Counters& counters, std::function<void(int fd)> take,
                       int stop_fd)
    : socket_(std::move(socket)),
      allowed_uid_(allowed_uid),
      counters_(counters),
      take_(std::move(take)),
      stop_fd_(stop_fd),
      thread_([this] { Loop(); }) {}

AcceptLoop::~AcceptLoop() {
  const uint64_t one = 1;
  if (write(stop_fd_, &one, sizeof(one)) != sizeof(one)) {
    LogError("accept.stop_failed", {{"error", strerror(errno)}});
  }
  thread_.join();
  close(stop_fd_);
}

void AcceptLoop::Loop() {
  while (true) {
    pollfd fds[] = {{.fd = socket_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) {
      LogError("accept.ended", {{"error", strerror(errno)}});
      return;
    }
    if (fds[1].revents != 0) return;
    if (fds[0].revents != 0) AcceptAll();
  }
}

void AcceptLoop::AcceptAll() {
  while (true) {
    const int fd =
        accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // Most likely out of descriptors: give calls under way time to end
      // instead of spinning on a socket that stays readable.
      LogWarning("accept.failed", {{"error", strerror(errno)}});
      pollfd stop = {.fd = stop_fd_, .events = POLLIN, .revents = 0};
      poll(&stop, 1, 100);
      return;
    }
    ucred peer = {};
    socklen_t length = sizeof(peer);
    const bool known =
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    if (!known || peer.uid != allowed_uid_) {
      close(fd);
      counters_.Add(Count::kPeersRefused);
      LogWarning("peer.refused",
                 {{"uid", absl::StrCat(known ? int64_t{peer.uid} : -1)},
                  {"due", absl::StrCat(allowed_uid_)}});
      continue;
    }
    counters_.Add(Count::kPeersAccepted);
    take_(fd);
  }
}

}  // namespace kiln

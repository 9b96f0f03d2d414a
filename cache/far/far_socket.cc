#include "cache/far/far_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Broken(absl::string_view what, int error) {
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat(what, ": ", strerror(error)));
}

}  // namespace

absl::StatusOr<FarSocket> FarSocket::Connect(const SocketAddress& address,
                                             SteadyTime deadline) {
  FarSocket made(socket(address.storage.ss_family,
                        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.fd() < 0) return Broken("socket", errno);
  const int on = 1;
  setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto* to = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(made.fd(), to, address.bytes) == 0) return made;
  if (errno != EINPROGRESS) return Broken("connect", errno);
  RETURN_IF_ERROR(made.WaitFor(POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Broken("connect", error);
  return made;
}

FarSocket::~FarSocket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FarSocket::WaitFor(int events, SteadyTime deadline) const {
  while (true) {
    const absl::Duration left = TimeLeft(deadline);
    if (left == absl::ZeroDuration())
      return absl::DeadlineExceededError("no answer in time");
    timespec wait = absl::ToTimespec(left);
    pollfd entry = {
        .fd = fd_, .events = static_cast<short>(events), .revents = 0};
    const int ready = ppoll(&entry, 1, &wait, nullptr);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Broken("poll", errno);
  }
}

}  // namespace kiln

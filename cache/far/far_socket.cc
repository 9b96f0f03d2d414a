#include "cache/far/far_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Broken(int error) {
  return MakeError(ErrorReason::kStorage, strerror(error));
}

}  // namespace

std::string SocketAddress::Text() const {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&storage), bytes, host,
                  sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an address of an unknown family";
  }
  const bool is_v6 = storage.ss_family == AF_INET6;
  return is_v6 ? absl::StrCat("[", host, "]:", port)
               : absl::StrCat(host, ":", port);
}

absl::StatusOr<FarSocket> FarSocket::Connect(
    absl::Span<const SocketAddress> addresses, SteadyTime deadline) {
  std::vector<std::string> told;
  bool late = false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const absl::Duration share =
        TimeLeft(deadline) / static_cast<double>(addresses.size() - i);
    auto made = ConnectTo(addresses[i], After(SteadyNow(), share));
    if (made.ok()) return made;
    late |= absl::IsDeadlineExceeded(made.status());
    told.push_back(absl::StrCat("connect to ", addresses[i].Text(), ": ",
                                made.status().message()));
  }
  const std::string why = absl::StrJoin(told, "; ");
  if (late) return absl::DeadlineExceededError(why);
  return MakeError(ErrorReason::kStorage, why);
}

absl::StatusOr<FarSocket> FarSocket::ConnectTo(const SocketAddress& address,
                                               SteadyTime deadline) {
  FarSocket made(socket(address.storage.ss_family,
                        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.fd() < 0) return Broken(errno);
  const int on = 1;
  setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const auto* to = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(made.fd(), to, address.bytes) == 0) return made;
  if (errno != EINPROGRESS) return Broken(errno);
  RETURN_IF_ERROR(made.WaitFor(POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Broken(error);
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
    if (ready < 0 && errno != EINTR)
      return MakeError(ErrorReason::kStorage,
                       absl::StrCat("poll: ", strerror(errno)));
  }
}

}  // namespace kiln

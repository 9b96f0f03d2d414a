#include "server/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr int kBacklog = 1024;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

absl::Status Refuse(const std::string& address, absl::string_view why) {
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat("tcp ", address, ": can't be bound: ", why,
                                "; is another daemon there?"));
}

int PortOf(const sockaddr_storage& name) {
  return ntohs(name.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

// A socket that listens there, at `port`; or -1, and errno says why.
int ListenAt(const addrinfo& at, int port) {
  const int fd =
      socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  sockaddr_storage name = {};
  memcpy(&name, at.ai_addr, at.ai_addrlen);
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at.ai_family == AF_INET6) {
    // "[::]" is every address, as elsewhere.
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    reinterpret_cast<sockaddr_in6&>(name).sin6_port =
        htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in&>(name).sin_port =
        htons(static_cast<uint16_t>(port));
  }
  if (bind(fd, reinterpret_cast<sockaddr*>(&name), at.ai_addrlen) == 0 &&
      listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<TcpListener> TcpListener::Open(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string service = address.substr(colon + 1);
  if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) return Refuse(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  TcpListener listener;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    sockaddr_storage name = {};
    memcpy(&name, at->ai_addr, at->ai_addrlen);
    const int due = listener.port_ != 0 ? listener.port_ : PortOf(name);
    const int fd = ListenAt(*at, due);
    // A name may have an address of a family that this machine does not speak.
    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) &&
        (at->ai_next != nullptr || !listener.fds_.empty())) {
      continue;
    }
    if (fd < 0) return Refuse(address, strerror(errno));
    listener.fds_.push_back(fd);
    socklen_t length = sizeof(name);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0)
      return Refuse(address, strerror(errno));
    listener.port_ = PortOf(name);
  }
  return listener;
}

TcpListener::~TcpListener() {
  for (const int fd : fds_) close(fd);
}

std::string PeerAddress(int fd) {
  sockaddr_storage name = {};
  socklen_t length = sizeof(name);
  char host[NI_MAXHOST];
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&name), length, host,
                  sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  absl::string_view address = host;
  if (absl::StrContains(address, '.')) absl::ConsumePrefix(&address, "::ffff:");
  return std::string(address);
}

int PeerPort(int fd) {
  sockaddr_storage name = {};
  socklen_t length = sizeof(name);
  return getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0
             ? PortOf(name)
             : 0;
}

}  // namespace kiln

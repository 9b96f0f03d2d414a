#include "cache/far/host_resolver.h"

#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "proto/base/tcp_address.h"

namespace kiln {
namespace {

// How long an address is believed, and how long a name without one is not asked
// for again.
constexpr absl::Duration kKeepAddress = absl::Seconds(30);
constexpr absl::Duration kKeepFailure = absl::Seconds(1);
// Names that are kept: a server that redirects to ever new ones fills no memory.
constexpr size_t kMaxNames = 1024;

// `flags` of getaddrinfo.
absl::StatusOr<std::vector<SocketAddress>> LookUp(const std::string& host,
                                                  int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0 || found == nullptr) {
    return MakeError(ErrorReason::kStorage,
                     absl::StrCat("host ", host, ": ", gai_strerror(error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.bytes = one->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

std::vector<SocketAddress> WithPort(std::vector<SocketAddress> addresses,
                                    int port) {
  const in_port_t number = htons(static_cast<uint16_t>(port));
  for (SocketAddress& address : addresses) {
    if (address.storage.ss_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = number;
    } else {
      reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = number;
    }
  }
  return addresses;
}

}  // namespace

std::string HostPort::Text() const {
  if (absl::StrContains(host, ':')) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  RETURN_IF_ERROR(CheckTcpAddress(text, /*least_port=*/1));
  const size_t colon = text.rfind(':');
  HostPort place;
  place.host = text.substr(0, colon);
  if (place.host.front() == '[')
    place.host = place.host.substr(1, place.host.size() - 2);
  if (!absl::SimpleAtoi(text.substr(colon + 1), &place.port))
    return absl::InternalError("CheckTcpAddress took no port");
  return place;
}

HostResolver::HostResolver() : thread_([this] { Loop(); }) {}

HostResolver::~HostResolver() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    asked_.SignalAll();
  }
  thread_.join();
}

absl::StatusOr<std::vector<SocketAddress>> HostResolver::Resolve(
    const HostPort& place, SteadyTime deadline) {
  const auto numeric = LookUp(place.host, AI_NUMERICHOST);
  if (numeric.ok()) return WithPort(*numeric, place.port);
  MutexLock lock(&mu_);
  while (true) {
    const auto found = known_.find(place.host);
    if (found != known_.end() && SteadyNow() < found->second.until) {
      RETURN_IF_ERROR(found->second.addresses.status());
      return WithPort(*found->second.addresses, place.port);
    }
    if (wanted_.insert(place.host).second) asked_.Signal();
    const absl::Duration left = TimeLeft(deadline);
    if (left == absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("host ", place.host, ": not resolved in time"));
    }
    answered_.WaitFor(&mu_, left);
  }
}

void HostResolver::Loop() {
  while (true) {
    std::string host;
    {
      MutexLock lock(&mu_);
      while (wanted_.empty() && !ending_) asked_.Wait(&mu_);
      if (ending_) return;
      host = *wanted_.begin();
    }
    auto addresses = LookUp(host, 0);
    MutexLock lock(&mu_);
    if (known_.size() >= kMaxNames) known_.clear();
    const SteadyTime until =
        After(SteadyNow(), addresses.ok() ? kKeepAddress : kKeepFailure);
    known_.insert_or_assign(host, Known{std::move(addresses), until});
    wanted_.erase(host);
    answered_.SignalAll();
  }
}

}  // namespace kiln

#include "client/daemon_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/connection_trouble.h"
#include "client/daemon_status.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/grpc_deadline.h"
#include "proto/base/refusal.h"
#include "proto/base/rpc_details.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"

namespace kiln {
namespace {

// A full backlog is worth another look; a missing socket is not.
constexpr absl::Duration kRetryPause = absl::Milliseconds(5);

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::Status NotThere(const std::string& path, int error) {
  const bool absent = error == ENOENT || error == ECONNREFUSED;
  return absl::UnavailableError(absl::StrCat(
      "kilnd at ", path, ": ", std::strerror(error),
      absent ? "; no daemon listens there: start one, or check the path"
      : error == EACCES
          ? "; ask its owner for an [[access]] rule that lets you in"
          : ""));
}

absl::StatusOr<Descriptor> ConnectTo(const std::string& path,
                                     SteadyTime deadline) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("socket ", path, ": longer than ",
                                  sizeof(name.sun_path) - 1, " bytes"));
  }
  std::memcpy(name.sun_path, path.data(), path.size());
  while (true) {
    Descriptor fd(
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd.get() < 0) return NotThere(path, errno);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name),
                sizeof(name)) == 0) {
      return fd;
    }
    // EAGAIN: somebody listens and is behind with accepting.
    if (errno != EAGAIN) return NotThere(path, errno);
    if (SteadyNow() >= deadline) return MarkSilent(NotThere(path, EAGAIN));
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kRetryPause)));
  }
}

absl::Status CheckPeer(int fd, const std::string& path, uid_t due) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return NotThere(path, errno);
  }
  if (peer.uid == due || peer.uid == 0) return absl::OkStatus();
  return MakeError(ErrorReason::kPermission,
                   absl::StrCat("kilnd at ", path, ": runs as user ", peer.uid,
                                ", expected ", due));
}

grpc::ChannelArguments ArgumentsFor(const DaemonAddress& address) {
  grpc::ChannelArguments arguments;
  const int limit =
      static_cast<int>(std::min<int64_t>(address.max_message_bytes, INT32_MAX));
  arguments.SetMaxReceiveMessageSize(limit);
  arguments.SetMaxSendMessageSize(limit);
  // Refusals of a large graph (rpc_details.h), with the rest of a trailer.
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE,
                   static_cast<int>(2 * kMostRefusalBytes));
  // A daemon stands on a private network, where the environment's proxy for the
  // web has no business.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!address.socket.empty()) return arguments;
  // What was sent and is not acknowledged for so long costs the connection, and
  // another is tried soon: after a long silence of the network TCP itself tries
  // again minutes later. Longer than longest_silence, which tells more.
  constexpr int kUnheardMs = 20'000;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kUnheardMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUnheardMs);
  constexpr int kReconnectMs = 5'000;
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  return arguments;
}

// The status of a call whose message gRPC itself would not carry, here or at
// the daemon: RESOURCE_EXHAUSTED without a reason of ours, and in its words
// "Received message larger than max (1048712 vs. 131072)".
std::optional<absl::Status> MessageOverLimit(const grpc::Status& status,
                                             absl::string_view what) {
  const std::string text = status.error_message();
  const size_t at = text.find("message larger than max (");
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED ||
      at == std::string::npos) {
    return std::nullopt;
  }
  std::pair<absl::string_view, absl::string_view> sizes =
      absl::StrSplit(absl::string_view(text).substr(text.find('(', at) + 1),
                     absl::MaxSplits(" vs. ", 1));
  absl::ConsumeSuffix(&sizes.second, ")");
  return MakeError(ErrorReason::kTooLarge,
                   absl::StrCat(what, ": message: found ", sizes.first,
                                " bytes, expected at most ", sizes.second));
}

}  // namespace

std::string DaemonAddress::Text() const {
  return socket.empty() ? tcp : absl::StrCat("unix:", socket);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenDaemonChannel(
    const DaemonAddress& address) {
  const grpc::ChannelArguments arguments = ArgumentsFor(address);
  if (address.socket.empty()) {
    if (address.tcp.empty()) {
      return MakeError(ErrorReason::kBadOption,
                       "daemon: found no socket and no address; set KILN_ADDR, "
                       "or name one in kiln.toml");
    }
    if (address.public_keys.empty()) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("daemon at ", address.tcp,
                                    ": found no public key of it; name the one "
                                    "that `compilectl keys list` shows beside "
                                    "it (--public-key, KILN_PUBLIC_KEY)"));
    }
    ASSIGN_OR_RETURN(const auto credentials,
                     CredentialsFor(address.tcp, address.tls));
    return grpc::CreateCustomChannel(address.tcp, credentials, arguments);
  }
  ASSIGN_OR_RETURN(Descriptor fd, ConnectTo(address.socket,
                                            SteadyIn(address.connect_timeout)));
  RETURN_IF_ERROR(CheckPeer(fd.get(), address.socket,
                            address.socket_owner.value_or(geteuid())));
  return grpc::CreateCustomInsecureChannelFromFd(address.Text(), fd.Release(),
                                                 arguments);
}

absl::Status StatusOfCall(const grpc::Status& status,
                          const grpc::ClientContext& context,
                          absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  // A daemon's refusal begins with the call that it refuses.
  const std::string& said = status.error_message();
  const std::string message = absl::StartsWith(said, absl::StrCat(what, ": "))
                                  ? said
                                  : absl::StrCat(what, ": ", said);
  const auto& trailer = context.GetServerTrailingMetadata();
  const auto row = trailer.find("kiln-reason");
  if (row != trailer.end()) {
    const std::optional<ErrorReason> reason = ReasonFromName(
        absl::string_view(row->second.data(), row->second.size()));
    if (reason.has_value()) {
      const absl::Status error =
          WithRefusalsIn(status.error_details(), MakeError(*reason, message));
      const auto delay = RetryDelayIn(status.error_details());
      return delay.has_value() ? MarkRetry(error, *delay) : error;
    }
  }
  if (const auto over = MessageOverLimit(status, what)) return *over;
  if (const auto trouble = ConnectionTrouble(status.error_message()))
    return absl::UnavailableError(absl::StrCat(what, ": ", *trouble));
  // gRPC's own words for it.
  if (status.error_message() == "Deadline Exceeded")
    return absl::DeadlineExceededError(
        absl::StrCat(what, ": no answer before the deadline"));
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      message);
}

void TakeRefusals(grpc::ClientContext& context) {
  context.AddMetadata(kDetailBytesHeader, absl::StrCat(kMostRefusalBytes));
}

void SetDeadline(grpc::ClientContext& context, SteadyTime deadline) {
  if (deadline != kNever) context.set_deadline(ToGrpcDeadline(deadline));
}

}  // namespace kiln

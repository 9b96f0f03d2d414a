#include "cache/far/far_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/far/tls_stream.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

absl::Status Broken(absl::string_view what, int error) {
  return MakeError(ErrorReason::kStorage,
                   absl::StrCat(what, ": ", strerror(error)));
}

class PlainStream final : public FarStream {
 public:
  explicit PlainStream(FarSocket socket) : socket_(std::move(socket)) {}

  absl::Status Write(absl::string_view bytes, SteadyTime deadline) override {
    while (!bytes.empty()) {
      const ssize_t sent =
          send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        RETURN_IF_ERROR(socket_.WaitFor(POLLOUT, deadline));
      } else if (errno != EINTR) {
        return Broken("send", errno);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Read(absl::Span<char> into,
                              SteadyTime deadline) override {
    while (true) {
      const ssize_t got = recv(socket_.fd(), into.data(), into.size(), 0);
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0) return MakeError(ErrorReason::kStorage, "it hung up");
      if (errno == EAGAIN) {
        RETURN_IF_ERROR(socket_.WaitFor(POLLIN, deadline));
      } else if (errno != EINTR) {
        return Broken("recv", errno);
      }
    }
  }

 private:
  const FarSocket socket_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FarStream>> FarStream::Connect(
    const std::string& host, absl::Span<const SocketAddress> addresses,
    const FarTlsFiles& tls, SteadyTime deadline) {
  ASSIGN_OR_RETURN(FarSocket socket, FarSocket::Connect(addresses, deadline));
  if (!tls.ca.empty())
    return ShakeHands(std::move(socket), host, tls, deadline);
  return std::unique_ptr<FarStream>(new PlainStream(std::move(socket)));
}

}  // namespace kiln

#include "cache/far/redis_connection.h"

#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(
    const HostPort& place, absl::Span<const SocketAddress> addresses,
    const RedisOptions& options, SteadyTime deadline) {
  ASSIGN_OR_RETURN(
      std::unique_ptr<FarStream> stream,
      FarStream::Connect(place.host, addresses, options.tls, deadline));
  std::unique_ptr<RedisConnection> opened(
      new RedisConnection(std::move(stream), options.limits));
  if (options.password.empty()) return opened;
  std::vector<absl::string_view> words = {"AUTH"};
  if (!options.user.empty()) words.push_back(options.user);
  words.push_back(options.password);
  ASSIGN_OR_RETURN(const std::vector<RespValue> replies,
                   opened->Run({EncodeCommand(words)}, deadline));
  if (replies[0].is(RespValue::Kind::kError)) {
    // The server's own words might repeat what it was sent.
    return MakeError(ErrorReason::kPermission,
                     "AUTH: the server refuses user and password");
  }
  return opened;
}

absl::StatusOr<std::vector<RespValue>> RedisConnection::Run(
    absl::Span<const std::string> commands, SteadyTime deadline) {
  RETURN_IF_ERROR(stream_->Write(absl::StrJoin(commands, ""), deadline));
  std::vector<RespValue> replies;
  piece_.resize(kReadBytes);
  while (replies.size() < commands.size()) {
    ASSIGN_OR_RETURN(std::optional<RespValue> reply, reader_.Next());
    if (reply.has_value()) {
      replies.push_back(*std::move(reply));
      continue;
    }
    ASSIGN_OR_RETURN(const size_t got,
                     stream_->Read(absl::MakeSpan(piece_), deadline));
    reader_.Append(absl::string_view(piece_).substr(0, got));
  }
  return replies;
}

}  // namespace kiln

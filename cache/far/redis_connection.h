#ifndef KILN_CACHE_FAR_REDIS_CONNECTION_H_
#define KILN_CACHE_FAR_REDIS_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cache/far/far_stream.h"
#include "cache/far/host_resolver.h"
#include "cache/far/resp.h"
#include "proto/base/steady_time.h"

namespace kiln {

// How every server of a store is talked to.
struct RedisOptions {
  FarTlsFiles tls;
  std::string user;      // empty: the default user
  std::string password;  // empty: no AUTH. Never logged, in no message
  RespLimits limits;
};

// One connection to one Redis server. After an error it is of no use. One thread
// at a time.
class RedisConnection {
 public:
  // Connects and logs in. Errors: as FarStream::Connect; PERMISSION_DENIED
  // PERMISSION for a password or certificate that is refused.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(
      const HostPort& place, absl::Span<const SocketAddress> addresses,
      const RedisOptions& options, SteadyTime deadline);

  // Sends all commands (EncodeCommand) at once; gives a reply to each, in order.
  // A reply may be an error: that is the server's word and no error here.
  //
  // Errors: as FarStream; DATA_LOSS ARTIFACT_CORRUPT for what is no RESP2.
  absl::StatusOr<std::vector<RespValue>> Run(
      absl::Span<const std::string> commands, SteadyTime deadline);

 private:
  RedisConnection(std::unique_ptr<FarStream> stream, const RespLimits& limits)
      : stream_(std::move(stream)), reader_(limits) {}

  const std::unique_ptr<FarStream> stream_;
  RespReader reader_;
  std::string piece_;  // what Read fills
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_CONNECTION_H_

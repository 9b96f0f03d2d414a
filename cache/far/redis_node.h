#ifndef KILN_CACHE_FAR_REDIS_NODE_H_
#define KILN_CACHE_FAR_REDIS_NODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cache/far/far_pause.h"
#include "cache/far/host_resolver.h"
#include "cache/far/redis_connection.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// One Redis server with its idle connections. One that cannot be reached or is
// silent is left alone for a pause, then tried by one call at a time.
// Thread-safe.
class RedisNode {
 public:
  // `options` and `resolver` outlive this.
  RedisNode(HostPort place, const RedisOptions& options,
            HostResolver& resolver);

  // As RedisConnection::Run, over a connection of its own while it runs.
  // UNAVAILABLE STORAGE also at once, during a pause (far_pause.h). An idle
  // connection that the server closed meanwhile is opened again.
  absl::StatusOr<std::vector<RespValue>> Run(
      absl::Span<const std::string> commands, SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Has idle connections ready: one for a look, one for a lease. Errors: as Run.
  absl::Status Connect(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mu_);

  const HostPort& place() const { return place_; }

 private:
  using Connection = std::unique_ptr<RedisConnection>;

  absl::StatusOr<std::vector<RespValue>> RunOnce(
      absl::Span<const std::string> commands, SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<Connection> Open(SteadyTime deadline);
  bool HasIdle(size_t due) ABSL_LOCKS_EXCLUDED(mu_);
  Connection TakeIdle() ABSL_LOCKS_EXCLUDED(mu_);
  void GiveBack(Connection connection) ABSL_LOCKS_EXCLUDED(mu_);

  const HostPort place_;
  const RedisOptions& options_;
  HostResolver& resolver_;
  FarBreaker breaker_;
  Mutex mu_;
  std::vector<Connection> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_REDIS_NODE_H_

#ifndef KILN_TESTS_SUPPORT_REDIS_SERVER_H_
#define KILN_TESTS_SUPPORT_REDIS_SERVER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/far/host_resolver.h"
#include "cache/far/redis_cluster.h"
#include "proto/base/child.h"
#include "tests/support/short_folder.h"

namespace kiln {

// A real redis-server on a free port of 127.0.0.1, with a folder of its own; ends
// with this.
class RedisServer {
 public:
  // `args`: of redis-server, beside the port and the folder. With `tls` its port
  // speaks TLS alone, with the files in `args`.
  explicit RedisServer(std::vector<std::string> args = {}, bool tls = false);

  HostPort place() const { return {"127.0.0.1", port_}; }
  int port() const { return port_; }
  // "127.0.0.1:40123".
  std::string address() const { return place().Text(); }

  // Kills it, as a machine that goes away. Restart starts it on the same port.
  void Kill();
  void Restart();
  // Its connections stay, and nothing is answered, until Thaw.
  void Freeze();
  void Thaw();

 private:
  void Start();

  const ShortFolder folder_;
  const std::vector<std::string> args_;
  const bool tls_;
  const int port_;
  std::optional<Child> child_;
};

// Asks one server, without a cluster's redirects; fails the test where it does not
// answer.
RespValue AskRedis(const HostPort& place, const std::vector<std::string>& words,
                   const RedisOptions& options = {});

// Servers that are one Redis cluster, half of them primaries, one replica each.
std::vector<std::unique_ptr<RedisServer>> StartRedisCluster(int servers);

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_REDIS_SERVER_H_

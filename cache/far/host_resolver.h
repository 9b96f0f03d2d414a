#ifndef KILN_CACHE_FAR_HOST_RESOLVER_H_
#define KILN_CACHE_FAR_HOST_RESOLVER_H_

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "cache/far/far_socket.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// A place of a far store.
struct HostPort {
  std::string host;  // a name or an address, IPv6 without brackets
  int port = 0;

  // "10.0.0.7:6379", "[::1]:6379".
  std::string Text() const;
  friend bool operator<(const HostPort& a, const HostPort& b) {
    return a.host != b.host ? a.host < b.host : a.port < b.port;
  }
  friend bool operator==(const HostPort& a, const HostPort& b) = default;
};

// Of "host:port". BAD_OPTION as CheckTcpAddress.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

// Addresses of hosts. The system's resolver has no deadline, so names are looked
// up on a thread of this, and kept for a while. Thread-safe.
class HostResolver {
 public:
  HostResolver();
  HostResolver(const HostResolver&) = delete;
  HostResolver& operator=(const HostResolver&) = delete;
  // Waits for a look-up under way, which may take the resolver's own time.
  ~HostResolver();

  // A numeric address at once, all those of a name when they are known, in the
  // system's order and at least one. DEADLINE_EXCEEDED; UNAVAILABLE STORAGE when the
  // resolver knows none.
  absl::StatusOr<std::vector<SocketAddress>> Resolve(const HostPort& place,
                                                     SteadyTime deadline)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Known {
    absl::StatusOr<std::vector<SocketAddress>> addresses;  // without ports
    SteadyTime until;
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  CondVar asked_, answered_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::set<std::string> wanted_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace kiln

#endif  // KILN_CACHE_FAR_HOST_RESOLVER_H_

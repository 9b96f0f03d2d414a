#ifndef KILN_SERVER_OPEN_CONNECTIONS_H_
#define KILN_SERVER_OPEN_CONNECTIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace kiln {

// How many connections there may be at one door.
struct ConnectionLimits {
  int64_t all = 0;
  int64_t of_a_peer = 0;
};

// What the process's descriptors allow at each of two doors: half each of what is
// left beside the database, workers and the far tier; at most 16384, and a quarter
// of it for one peer.
ConnectionLimits LimitsForDescriptors(int64_t max_descriptors);

// Whose share a connection counts in. `peer`: a user or an address; of IPv6 it is the
// network of 64 bits, since one machine is given all addresses of it.
std::string ConnectionHolder(absl::string_view peer);

// What tells one socket of the kernel from all others (SO_COOKIE); 0: it is no
// socket.
uint64_t SocketCookie(int fd);

// Counts the connections of a door by who is at their other end. They belong to
// gRPC, which tells nobody when it closes one: a connection is open while its
// descriptor is still the socket that it was. Thread-safe.
class OpenConnections {
 public:
  explicit OpenConnections(const ConnectionLimits& limits) : limits_(limits) {}

  // Counts the socket `fd` until it is closed. `peer`: a user or an address; empty:
  // limited by the door's number alone.
  //
  // RESOURCE_EXHAUSTED QUEUE_FULL when there are as many as there may be; it is
  // not counted then.
  absl::Status Add(int fd, absl::string_view peer) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Socket {
    uint64_t cookie = 0;
    std::string peer;
  };
  // Forgets those that were closed.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(absl::flat_hash_map<int, Socket>::iterator socket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t CountOf(absl::string_view peer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsFull(absl::string_view peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ConnectionLimits limits_;
  Mutex mu_;
  absl::flat_hash_map<int, Socket> open_ ABSL_GUARDED_BY(mu_);  // by descriptor
  std::map<std::string, int64_t, std::less<>> peers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_OPEN_CONNECTIONS_H_

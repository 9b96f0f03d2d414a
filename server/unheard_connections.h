#ifndef KILN_SERVER_UNHEARD_CONNECTIONS_H_
#define KILN_SERVER_UNHEARD_CONNECTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace kiln {

// The connections of a door that gRPC was given and that no call has come over yet.
// gRPC tells nobody of a TLS handshake that breaks off: it closes the descriptor.
// One that is closed before its first call either did so, or had nothing to ask.
// Thread-safe.
class UnheardConnections {
 public:
  // `peer`: who was at the other end.
  using Left = std::function<void(const std::string& peer)>;

  // `left` is called by whoever finds that a connection has gone.
  explicit UnheardConnections(Left left) : left_(std::move(left)) {}

  // The socket `fd`, before gRPC has it. `peer`: as gRPC calls it, of no other
  // connection as long as this one is open.
  void Add(int fd, const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // A call came over the connection to `peer`.
  void Hear(const std::string& peer) ABSL_LOCKS_EXCLUDED(mu_);

  // Tells of those that were closed. For whoever has a clock.
  void Sweep() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Socket {
    int fd = -1;
    uint64_t cookie = 0;
  };

  const Left left_;
  Mutex mu_;
  absl::flat_hash_map<std::string, Socket> by_peer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_UNHEARD_CONNECTIONS_H_

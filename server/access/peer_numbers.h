#ifndef KILN_SERVER_ACCESS_PEER_NUMBERS_H_
#define KILN_SERVER_ACCESS_PEER_NUMBERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/steady_time.h"

namespace kiln {

// Which user stands behind a connection of the Unix socket. gRPC 1.51 tells a
// handler the descriptor's number ("fd:17"), and nothing more, of a connection
// that was handed to it; the kernel gives the number to another connection as
// soon as this one ends, while its last calls may still be on their way. So a
// number belongs to one user until its connection was found closed, and for
// kKept after that: another user's connection that gets it meanwhile is moved to a
// number of its own. Handlers ask when they begin, which they do within seconds.
//
// Thread-safe.
class PeerNumbers {
 public:
  static constexpr absl::Duration kKept = absl::Minutes(10);

  // `clock`, whose steady time counts, outlives this.
  explicit PeerNumbers(const Clock& clock) : clock_(clock) {}

  // The descriptor under which `fd`'s connection, of `uid`, may be handed on:
  // `fd` itself, or a duplicate, and `fd` is closed.
  //
  // UNAVAILABLE STORAGE when the process has no descriptor left; `fd` is closed.
  absl::StatusOr<int> Bind(int fd, uid_t uid) ABSL_LOCKS_EXCLUDED(mu_);

  // The user of a connection, by gRPC's name of the peer. Empty: no such name.
  std::optional<uid_t> UserOf(absl::string_view peer) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Those that belong to somebody.
  size_t known() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Holder {
    uid_t user = 0;
    uint64_t cookie = 0;                              // of its last connection
    std::optional<SteadyTime> closed = std::nullopt;  // as it was found
  };
  // Finds those that were closed, and forgets those for which that is long ago.
  void Sweep(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Clock& clock_;
  mutable Mutex mu_;
  SteadyTime swept_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<int, Holder> holders_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_PEER_NUMBERS_H_

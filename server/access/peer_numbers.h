#ifndef KILN_SERVER_ACCESS_PEER_NUMBERS_H_
#define KILN_SERVER_ACCESS_PEER_NUMBERS_H_

#include <sys/types.h>

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"

namespace kiln {

// Which user stands behind a connection of the Unix socket. gRPC 1.51 tells a
// handler the descriptor's number ("fd:17"), and nothing more, of a connection
// that was handed to it; the kernel gives the number to another connection as
// soon as this one ends, while its last calls may still be on their way. So a
// number belongs to one user for as long as the daemon lives: another user's
// connection that gets it is moved to a number of its own.
//
// Thread-safe.
class PeerNumbers {
 public:
  // The descriptor under which `fd`'s connection, of `uid`, may be handed on:
  // `fd` itself, or a duplicate, and `fd` is closed.
  //
  // UNAVAILABLE STORAGE when the process has no descriptor left; `fd` is closed.
  absl::StatusOr<int> Bind(int fd, uid_t uid) ABSL_LOCKS_EXCLUDED(mu_);

  // The user of a connection, by gRPC's name of the peer. Empty: no such name.
  std::optional<uid_t> UserOf(absl::string_view peer) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  absl::flat_hash_map<int, uid_t> users_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln

#endif  // KILN_SERVER_ACCESS_PEER_NUMBERS_H_

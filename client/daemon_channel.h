#ifndef KILN_CLIENT_DAEMON_CHANNEL_H_
#define KILN_CLIENT_DAEMON_CHANNEL_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/signature.h"
#include "proto/base/steady_time.h"
#include "proto/rpc/daemon_tls.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace kiln {

// The address of a daemon, and how it is authenticated.
struct DaemonAddress {
  // Path of its Unix socket. The process at the other end must run as `socket_owner` or
  // root. The kernel says who it is; the daemon's own word does not count.
  std::string socket;
  // The user id that the daemon must run as; empty: that of this process.
  std::optional<uid_t> socket_owner;
  // "host:port"; used if `socket` is empty. Then `public_keys` must not be empty.
  // Proxies are never used.
  std::string tcp;
  // How both ends authenticate over TCP. Without TLS only a loopback address is allowed.
  DaemonTls tls;
  // Keys that may sign its artifacts. Empty: the keys that the daemon names over
  // the checked socket.
  std::vector<PublicKey> public_keys;
  // How long to wait for a process to listen at the socket.
  absl::Duration connect_timeout = absl::Seconds(1);
  // How long to wait for the daemon's answer to a question that needs no compile; over
  // TCP this includes the connection. Too short: a busy daemon and its cache go unused.
  // Too long: a hung daemon delays the caller.
  absl::Duration answer_timeout = absl::Seconds(10);
  // How long a daemon that compiles may send nothing; it reports progress every three
  // seconds. Too short: a daemon on a busy machine is given up. Too long: a stopped
  // daemon delays the caller.
  absl::Duration longest_silence = absl::Seconds(15);
  // Larger messages are refused. Artifacts of big models take some 10 MiB.
  int64_t max_message_bytes = int64_t{256} << 20;

  // "unix:/run/kiln/kilnd.sock", for messages.
  std::string Text() const;
};

// Opens a channel to the daemon. Over a Unix socket it is a single connection whose peer
// was checked. If it breaks, calls return UNAVAILABLE and the caller must open another.
// TCP connects at the first call, and reconnects when the connection breaks or nothing
// is acknowledged for 20 seconds. Calls fail earlier, at their own deadlines.
//
// Errors:
//   UNAVAILABLE        no process listens, or it does not accept the connection within
//                      connect_timeout (DaemonIsSilent)
//   PERMISSION_DENIED  PERMISSION  another user owns the other end of the socket
//   INVALID_ARGUMENT   BAD_OPTION  no address; TCP without a public key; TCP to another
//                                  machine without TLS; a bad TLS or token file
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenDaemonChannel(
    const DaemonAddress& address);

// The status of a finished call. It carries what the trailers say: the reason
// (`kiln-reason`), the refused nodes (proto/base/refusal.h) and when to try again
// (daemon_status.h). It is TOO_LARGE if gRPC refused a message over the channel's or the
// daemon's limit. If no connection was made, gRPC's message is rewritten
// (connection_trouble.h). An error's message is prefixed with `what`, once.
absl::Status StatusOfCall(const grpc::Status& status,
                          const grpc::ClientContext& context,
                          absl::string_view what);

// Asks the daemon to list all nodes that it refuses, if any. Call it before the RPC.
void TakeRefusals(grpc::ClientContext& context);

// Sets the time at which a call gives up.
void SetDeadline(grpc::ClientContext& context, SteadyTime deadline);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_CHANNEL_H_

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

// Where a daemon is, and how far it is trusted.
struct DaemonAddress {
  // Path of its Unix socket. The process at the other end must run as
  // `socket_owner` (or root): the kernel is asked, not the daemon.
  std::string socket;
  // User id that may own the daemon; empty: this process's own.
  std::optional<uid_t> socket_owner;
  // "host:port"; used when `socket` is empty. Public keys must come from the
  // configuration. No proxy is asked.
  std::string tcp;
  // How both ends prove themselves over TCP. Without it only a loopback address is
  // called, in plain.
  DaemonTls tls;
  // Keys that may sign its artifacts. Empty: the keys that the daemon names over
  // the checked socket.
  std::vector<PublicKey> public_keys;
  // How long to wait for a process to listen at the socket.
  absl::Duration connect_timeout = absl::Seconds(1);
  // How long to wait for a daemon that listens to say who it is, or what it has;
  // over TCP for the connection too. Too short and a busy daemon is passed over,
  // with its cache; too long and a hung one holds its caller.
  absl::Duration answer_timeout = absl::Seconds(10);
  // How long a daemon may say nothing while it compiles: it tells how a job goes
  // every three seconds. Too short and a busy machine's is given up, too long and
  // one that was stopped holds its caller.
  absl::Duration longest_silence = absl::Seconds(15);
  // Larger messages are refused. Artifacts of big models take some 10 MiB.
  int64_t max_message_bytes = int64_t{256} << 20;

  // "unix:/run/kiln/kilnd.sock", for messages.
  std::string Text() const;
};

// A channel to the daemon. Over a Unix socket it is the one connection whose
// peer was checked: when it breaks, calls give UNAVAILABLE, and the caller opens
// another. TCP connects lazily and again, also where nothing that was sent is
// acknowledged for 20 seconds: calls fail sooner, by their own times.
//
// Errors:
//   UNAVAILABLE        no process listens, or it accepts no connection within
//                      connect_timeout (DaemonIsSilent)
//   PERMISSION_DENIED  PERMISSION  the socket's other end is another user's
//   INVALID_ARGUMENT   BAD_OPTION  no address; TCP without a public key, or
//                                  without TLS to another machine; a TLS or token
//                                  file that is bad
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenDaemonChannel(
    const DaemonAddress& address);

// The status of a finished call, with the reason of its `kiln-reason` trailer
// where there is one, the nodes that are refused (proto/base/refusal.h), and when to
// try again (daemon_status.h); TOO_LARGE where gRPC refused a message over the limit
// of the channel or of the daemon's door; UNAVAILABLE in our
// words where no connection was made (connection_trouble.h). `what` stands in front of
// the message of an error, once.
absl::Status StatusOfCall(const grpc::Status& status,
                          const grpc::ClientContext& context,
                          absl::string_view what);

// Asks the daemon to name all nodes that it refuses, should it refuse any. Before
// the call.
void TakeRefusals(grpc::ClientContext& context);

// Sets the time at which a call gives up.
void SetDeadline(grpc::ClientContext& context, SteadyTime deadline);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_CHANNEL_H_

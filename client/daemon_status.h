#ifndef KILN_CLIENT_DAEMON_STATUS_H_
#define KILN_CLIENT_DAEMON_STATUS_H_

#include "absl/status/status.h"

namespace kiln {

// What the status of a call says of the daemon that was asked. None holds for
// OK.

// The connection is gone, and a new one may carry the call: UNAVAILABLE, or
// CANCELLED, since no client here cancels a call and a server that ends does.
// With a reason it is the daemon's own word.
bool ConnectionLost(const absl::Status& status);

// A daemon that takes connections and does not answer: stopped, stuck, or on a
// machine that is cut off. Another connection would find no other. Callers mark
// it where they know what they waited for; code and message stay.
absl::Status MarkSilent(absl::Status status);
bool DaemonIsSilent(const absl::Status& status);

// That daemon serves nobody any more: the connection is lost, or it drains.
bool DaemonIsGone(const absl::Status& status);

// No daemon, or none that can do it now: what a fallback is for. A request
// that is wrong in itself is wrong everywhere.
bool DaemonIsNotThere(const absl::Status& status);

// An option that this daemon does not know or allow. One of another build may
// say so of what is due here; the local worker, of this build, knows.
bool KnowsOtherOptions(const absl::Status& status);

// What the daemon gave is not what was asked for, or not its own.
bool DaemonLies(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_STATUS_H_

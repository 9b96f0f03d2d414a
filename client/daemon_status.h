#ifndef KILN_CLIENT_DAEMON_STATUS_H_
#define KILN_CLIENT_DAEMON_STATUS_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kiln {

// What the status of a call says about the daemon. Each predicate is false for OK.

// The connection is lost, and the call may succeed over a new one: UNAVAILABLE or
// CANCELLED without a reason. (A server that shuts down cancels its calls; our
// clients never do. A status with a reason is the daemon's own answer.)
bool ConnectionLost(const absl::Status& status);

// The daemon accepts connections but does not answer: it is stopped or stuck, or its
// machine is unreachable, so another connection would not help. Callers mark a
// status so where they know what they waited for; its code and message stay.
absl::Status MarkSilent(absl::Status status);
bool DaemonIsSilent(const absl::Status& status);

// When a daemon whose queue was full wants the call again. Empty: it did not say, and
// trying again is of no use.
absl::Status MarkRetry(absl::Status status, absl::Duration delay);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// The daemon no longer serves calls: the connection is lost, or it is draining.
bool DaemonIsGone(const absl::Status& status);

// There is no daemon, or it cannot serve the request now, so a fallback may. A
// request that is itself wrong fails everywhere.
bool DaemonIsNotThere(const absl::Status& status);

// The daemon does not know or allow an option. A daemon of another build may lack an
// option that this client has; the local worker is of this client's build.
bool KnowsOtherOptions(const absl::Status& status);

// The daemon's artifact does not answer the request, or is not signed by it.
bool DaemonLies(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_STATUS_H_

#ifndef KILN_CLIENT_DAEMON_IDENTITY_H_
#define KILN_CLIENT_DAEMON_IDENTITY_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/daemon_channel.h"
#include "proto/base/trusted_keys.h"
#include "proto/compile_service.pb.h"

// Asks a daemon who it is, and checks that it is the expected one.

namespace kiln {

// Calls CompileService.Describe.
//
// Errors, prefixed with `what`: UNAVAILABLE if the daemon does not answer within
// `timeout` (DaemonIsSilent); those of Describe.
absl::StatusOr<wire::DescribeReply> AskWhoItIs(
    const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout,
    absl::string_view what);

// The keys that a daemon's artifacts are verified with. `reply` names the keys that it
// signs with. Over a checked Unix socket these are trusted. Over TCP only the keys in
// `address` are trusted; `reply` can revoke some of them, but cannot add any.
//
// ARTIFACT_UNTRUSTED, with the keys of both sides, if a daemon behind TCP neither signs
// with a key in `address` nor trusts one.
absl::StatusOr<TrustedKeys> KeysOf(const DaemonAddress& address,
                                   const wire::DescribeReply& reply);

// Checks that the daemon behind TCP has one of the keys in `address`. For a Unix socket
// it returns OK without a call. Errors: those of AskWhoItIs and KeysOf.
absl::Status CheckIdentity(const std::shared_ptr<grpc::Channel>& channel,
                           const DaemonAddress& address);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_IDENTITY_H_

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

// Who a daemon says it is, and whether that is the one that was meant.

namespace kiln {

// UNAVAILABLE when it does not answer within `timeout` (DaemonIsSilent); else the
// errors of CompileService.Describe. `what` stands in front of the message.
absl::StatusOr<wire::DescribeReply> AskWhoItIs(
    const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout,
    absl::string_view what);

// The keys that artifacts of a daemon are verified with, which says of itself who
// signs there. Of a daemon whose socket was checked that is enough. Else keys are
// configured, and its word can only take one away.
//
// ARTIFACT_UNTRUSTED, naming the keys of both sides, when a daemon behind TCP signs
// with none of the address's keys and believes none of them.
absl::StatusOr<TrustedKeys> KeysOf(const DaemonAddress& address,
                                   const wire::DescribeReply& reply);

// OK when the daemon behind TCP is one that the address's keys mean: the errors of
// both above. One behind a socket is not asked.
absl::Status CheckIdentity(const std::shared_ptr<grpc::Channel>& channel,
                           const DaemonAddress& address);

}  // namespace kiln

#endif  // KILN_CLIENT_DAEMON_IDENTITY_H_

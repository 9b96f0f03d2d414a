#ifndef KILN_CLIENT_CONNECTION_TROUBLE_H_
#define KILN_CLIENT_CONNECTION_TROUBLE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Rewrites gRPC's message about a failed connection: the address, what was found there,
// and what to do. Empty if `said` is not such a message. Pure.
//
//   "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7117:
//    Failed to connect to remote host: Connection refused"
//   "127.0.0.1:7117: Connection refused; no daemon listens there: ..."
std::optional<std::string> ConnectionTrouble(absl::string_view said);

}  // namespace kiln

#endif  // KILN_CLIENT_CONNECTION_TROUBLE_H_

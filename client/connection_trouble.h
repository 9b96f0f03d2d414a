#ifndef KILN_CLIENT_CONNECTION_TROUBLE_H_
#define KILN_CLIENT_CONNECTION_TROUBLE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// What gRPC says of a connection that it could not make, in our words: the address,
// what was found there, what to do. Empty for what is no such text. Pure.
//
//   "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:7117:
//    Failed to connect to remote host: Connection refused"
//   "127.0.0.1:7117: Connection refused; none runs there: ..."
std::optional<std::string> ConnectionTrouble(absl::string_view said);

}  // namespace kiln

#endif  // KILN_CLIENT_CONNECTION_TROUBLE_H_

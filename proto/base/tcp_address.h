#ifndef KILN_PROTO_BASE_TCP_ADDRESS_H_
#define KILN_PROTO_BASE_TCP_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace kiln {

// BAD_OPTION unless `address` is "host:port": a host (a name, an IPv4 address,
// or an IPv6 address in brackets), and a port from `least_port` to 65535. A port
// of 0 is any free one. Asks no resolver: whether the host is one of this
// machine's shows when it is bound.
absl::Status CheckTcpAddress(const std::string& address, int least_port);

// BAD_OPTION, saying what to set, unless the host of such an address is
// "localhost" or an address of the loopback interface: what only this machine
// reaches may do without TLS.
absl::Status CheckLoopback(const std::string& address);

}  // namespace kiln

#endif  // KILN_PROTO_BASE_TCP_ADDRESS_H_

#ifndef KILN_TESTS_SUPPORT_LOOPBACK_H_
#define KILN_TESTS_SUPPORT_LOOPBACK_H_

#include <netinet/in.h>

#include <cstdint>

namespace kiln {

// A port of 127.0.0.1, for connect and bind.
inline sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_LOOPBACK_H_

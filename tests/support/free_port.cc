#include "tests/support/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "tests/support/loopback.h"

namespace kiln {

int FreePort() {
  // Redis also takes the port 10,000 above its own, for a cluster's nodes.
  static std::atomic<int> next{12000 + (getpid() * 37) % 8000};
  while (true) {
    const int port = next++;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = LoopbackAddress(port);
    const bool is_free = bind(fd, reinterpret_cast<const sockaddr*>(&address),
                              sizeof(address)) == 0;
    close(fd);
    if (is_free) return port;
  }
}

}  // namespace kiln

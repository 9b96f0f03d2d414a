// Who counts as one peer at a door.
#include "server/open_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace kiln {
namespace {

// A door where a peer may have one connection.
class Door {
 public:
  ~Door() {
    for (const int fd : fds_) close(fd);
  }
  bool Admits(const std::string& address) {
    fds_.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connections_.Add(fds_.back(), address).ok();
  }

 private:
  OpenConnections connections_{{.all = 100, .of_a_peer = 1}};
  std::vector<int> fds_;
};

TEST(OpenConnections, ANetworkOf64BitsIsOnePeer) {
  Door door;
  EXPECT_TRUE(door.Admits("2001:db8:0:1::1"));
  EXPECT_FALSE(door.Admits("2001:db8:0:1::2"));
  EXPECT_FALSE(door.Admits("2001:db8:0:1:ffff:ffff:ffff:ffff"));
  EXPECT_TRUE(door.Admits("2001:db8:0:2::1"));
}

TEST(OpenConnections, WhereManyMachinesShareANetworkEachAddressIsAPeer) {
  Door door;
  for (const char* address :
       {"::ffff:10.0.0.1", "::ffff:10.0.0.2", "fe80::1%eth0", "fe80::2%eth0",
        "fe80::1", "fe80::2", "10.0.0.1", "10.0.0.2", "uid:1000"}) {
    EXPECT_TRUE(door.Admits(address)) << address;
    EXPECT_FALSE(door.Admits(address)) << address;
  }
}

}  // namespace
}  // namespace kiln

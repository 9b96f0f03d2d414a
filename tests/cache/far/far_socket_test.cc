#include "cache/far/far_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

using testing::HasSubstr;

SocketAddress Loopback(const char* host, int port) {
  SocketAddress address;
  auto* place = reinterpret_cast<sockaddr_in*>(&address.storage);
  place->sin_family = AF_INET;
  place->sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(inet_pton(AF_INET, host, &place->sin_addr), 1);
  address.bytes = sizeof(sockaddr_in);
  return address;
}

// A socket bound to a free port of 127.0.0.1, listening or not.
class Bound {
 public:
  explicit Bound(bool listens) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    SocketAddress any = Loopback("127.0.0.1", 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&any.storage), any.bytes),
              0);
    address_.bytes = sizeof(address_.storage);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_.storage),
                          &address_.bytes),
              0);
    EXPECT_EQ(listens ? listen(fd_, 1) : 0, 0);
  }
  ~Bound() { close(fd_); }
  const SocketAddress& address() const { return address_; }

 private:
  const int fd_;
  SocketAddress address_;
};

SteadyTime Soon() { return After(SteadyNow(), absl::Seconds(30)); }

TEST(FarSocket, AnAddressThatRefusesIsPassedBy) {
  const Bound silent(/*listens=*/false), server(/*listens=*/true);
  const auto made =
      FarSocket::Connect({silent.address(), server.address()}, Soon());
  EXPECT_TRUE(made.ok()) << made.status();
}

TEST(FarSocket, EachAddressThatFailedIsTold) {
  const Bound one(/*listens=*/false), two(/*listens=*/false);
  const auto made = FarSocket::Connect({one.address(), two.address()}, Soon());
  EXPECT_EQ(ReasonOf(made.status()), ErrorReason::kStorage);
  for (const Bound* bound : {&one, &two}) {
    EXPECT_THAT(made.status().message(),
                HasSubstr("connect to " + bound->address().Text() +
                          ": Connection refused"));
  }
}

// RFC 5737 gives the first address to nobody: it drops what it is sent, or is
// unreachable.
TEST(FarSocket, AnAddressThatIsSilentLeavesTimeForTheNext) {
  const Bound server(/*listens=*/true);
  const auto made =
      FarSocket::Connect({Loopback("192.0.2.1", 6379), server.address()},
                         After(SteadyNow(), absl::Seconds(1)));
  EXPECT_TRUE(made.ok()) << made.status();
}

TEST(FarSocket, AnAddressIsWrittenWithItsPort) {
  EXPECT_EQ(Loopback("10.0.0.7", 6379).Text(), "10.0.0.7:6379");
  SocketAddress six;
  auto* place = reinterpret_cast<sockaddr_in6*>(&six.storage);
  place->sin6_family = AF_INET6;
  place->sin6_port = htons(80);
  place->sin6_addr = in6addr_loopback;
  six.bytes = sizeof(sockaddr_in6);
  EXPECT_EQ(six.Text(), "[::1]:80");
}

}  // namespace
}  // namespace kiln

// Clients whose calls are large, against the bounds for those that call nothing: real
// channels to a daemon's door with TLS.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/steady_time.h"
#include "tests/support/raw_call.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr int64_t kMostMessageBytes = 16 << 20;

class LargeCalls : public testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> ChannelOf(DaemonTls tls) {
    DaemonAddress address;
    address.tcp = absl::StrCat("localhost:", d_.daemon().tcp_port());
    address.tls = std::move(tls);
    // The daemon's own word is not asked for here.
    address.public_keys.push_back(SigningKey::Generate()->public_key());
    return *OpenDaemonChannel(address);
  }
  // A lookup whose message is so long: fields without end, read and not decoded.
  static grpc::StatusCode Lookup(const std::shared_ptr<grpc::Channel>& channel,
                                 int64_t bytes) {
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(60)));
    std::string reply;
    return CallRaw(channel, context, "/kiln.wire.CompileService/Lookup",
                   std::string(static_cast<size_t>(bytes), 'x'), reply)
        .error_code();
  }
  static void ExpectHealth(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    std::string reply;
    EXPECT_TRUE(CallRaw(channel, context, kCheck, "", reply).ok());
  }

  TlsDaemons network_;
  TestDaemon d_{[this](Config& config) {
    network_.OpenDoor(config, "a", 0,
                      {{"cert:reader.example", {Role::kReader, {"*"}}}});
    config.max_message_bytes = kMostMessageBytes;
  }};
};

TEST_F(LargeCalls, OfStrangersAreRefusedAndKeepTheirConnection) {
  const auto channel = ChannelOf({.ca = network_.ca_file()});
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < 32; ++i) {
      callers.emplace_back([&] {
        EXPECT_EQ(Lookup(channel, 1 << 20), grpc::StatusCode::UNAUTHENTICATED);
      });
    }
    for (std::thread& caller : callers) caller.join();
    ExpectHealth(channel);
  }
  EXPECT_EQ(d_.count(Count::kPeersRefused), 0);
}

TEST_F(LargeCalls, OfCallersKeepTheirConnectionWhateverComesOfThem) {
  const auto channel = ChannelOf(network_.TlsOf("reader"));
  for (int round = 0; round < 4; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] {
        EXPECT_EQ(Lookup(channel, 8 << 20), grpc::StatusCode::OUT_OF_RANGE);
      });
    }
    for (std::thread& caller : callers) caller.join();
    // gRPC ends the call where it begins, with more of the message on its way.
    EXPECT_EQ(Lookup(channel, 4 * kMostMessageBytes),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
    ExpectHealth(channel);
  }
  EXPECT_EQ(d_.count(Count::kPeersRefused), 0);
}

}  // namespace
}  // namespace kiln

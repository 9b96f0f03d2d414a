// What a caller is told of a call that failed, and of an address that lacks something.
#include <string>

#include "absl/strings/match.h"
#include "client/daemon_channel.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(StatusOfCall, NamesTheCallOnce) {
  const auto told = [](const char* said) {
    const grpc::ClientContext context;
    return std::string(
        StatusOfCall(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, said),
                     context, "lookup")
            .message());
  };
  EXPECT_EQ(told("lookup: caller cert:a is no reader"),
            "lookup: caller cert:a is no reader");
  EXPECT_EQ(told("caller cert:a is no reader"),
            "lookup: caller cert:a is no reader");
  EXPECT_EQ(told("lookups: none"), "lookup: lookups: none");
}

TEST(OpenDaemonChannel, TellsHowAKeyIsNamed) {
  DaemonAddress address;
  address.tcp = "localhost:7117";
  const absl::Status refused = OpenDaemonChannel(address).status();
  EXPECT_TRUE(
      absl::StrContains(refused.message(), "(--public-key, KILN_PUBLIC_KEY)"))
      << refused;
}

}  // namespace
}  // namespace kiln

#include "tests/support/health_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/raw_call.h"

namespace kiln {

// By hand, since Debian installs no health.proto: the request is empty, the
// reply is field 1, a varint: 1 SERVING, 2 NOT_SERVING.
std::string AskHealth(const std::string& address) {
  // A channel of its own: gRPC would share connections between channels.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  std::string reply;
  const grpc::Status status =
      CallRaw(channel, context, "/grpc.health.v1.Health/Check", "", reply);
  if (!status.ok()) {
    return absl::StrCat("error ", static_cast<int>(status.error_code()), " ",
                        status.error_message());
  }
  if (reply.size() != 2) return "error: the reply is no health reply";
  return reply[1] == 1 ? "SERVING" : "NOT_SERVING";
}

}  // namespace kiln

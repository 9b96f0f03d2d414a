#include "tests/support/health_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "proto/health.pb.h"
#include "tests/support/raw_call.h"

namespace kiln {

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
  grpc::health::v1::HealthCheckResponse said;
  if (!said.ParseFromString(reply))
    return "error: the reply is no health reply";
  return grpc::health::v1::HealthCheckResponse::ServingStatus_Name(
      said.status());
}

}  // namespace kiln

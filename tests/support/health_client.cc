#include "tests/support/health_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace kiln {

// By hand, since Debian installs no health.proto: the request is empty, the
// reply is field 1, a varint: 1 SERVING, 2 NOT_SERVING.
std::string AskHealth(const std::string& address) {
  // A channel of its own: gRPC would share connections between channels.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                            grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  if (!status.ok()) {
    return absl::StrCat("error ", static_cast<int>(status.error_code()), " ",
                        status.error_message());
  }
  grpc::Slice slice;
  if (!reply.DumpToSingleSlice(&slice).ok() || slice.size() != 2) {
    return "error: the reply is no health reply";
  }
  return slice.begin()[1] == 1 ? "SERVING" : "NOT_SERVING";
}

}  // namespace kiln

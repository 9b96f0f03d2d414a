#include "tests/support/health_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/generic_stub.h"
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

std::string AskReflection(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  grpc::GenericStub stub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  call->StartCall(nullptr);
  done();
  // Field 7, list_services, an empty string.
  const grpc::Slice list(std::string("\x3a\x00", 2));
  call->Write(grpc::ByteBuffer(&list, 1), nullptr);
  done();
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  done();
  call->WritesDone(nullptr);
  done();
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  queue.Shutdown();
  grpc::Slice slice;
  if (!status.ok() || !reply.DumpToSingleSlice(&slice).ok()) {
    return absl::StrCat("error ", static_cast<int>(status.error_code()), " ",
                        status.error_message());
  }
  return std::string(slice.begin(), slice.end());
}

}  // namespace kiln

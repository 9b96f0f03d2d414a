#include "tests/support/reflection_client.h"

#include <chrono>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/reflection_words.pb.h"

namespace kiln {
namespace {

absl::Status Ours(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

// One question over a stream of its own.
absl::StatusOr<wire::test::ReflectionReply> Ask(
    const std::string& address, const wire::test::ReflectionRequest& request) {
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
  const grpc::Slice bytes(request.SerializeAsString());
  call->Write(grpc::ByteBuffer(&bytes, 1), nullptr);
  done();
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  done();
  call->WritesDone(nullptr);
  done();
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  queue.Shutdown();
  if (!status.ok()) return Ours(status);
  grpc::Slice slice;
  wire::test::ReflectionReply reply;
  if (!answer.DumpToSingleSlice(&slice).ok() ||
      !reply.ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::DataLossError("reflection: its reply is no message");
  }
  if (reply.has_error())
    return Ours(
        grpc::Status(static_cast<grpc::StatusCode>(reply.error().code()),
                     reply.error().message()));
  return reply;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ServicesAt(
    const std::string& address) {
  wire::test::ReflectionRequest request;
  request.set_list_services("");
  const auto reply = Ask(address, request);
  if (!reply.ok()) return reply.status();
  std::vector<std::string> names;
  for (const auto& service : reply->services().service())
    names.push_back(service.name());
  return names;
}

absl::StatusOr<google::protobuf::FileDescriptorProto> FileAt(
    const std::string& address, const std::string& symbol) {
  wire::test::ReflectionRequest request;
  request.set_file_containing_symbol(symbol);
  const auto reply = Ask(address, request);
  if (!reply.ok()) return reply.status();
  google::protobuf::FileDescriptorProto file;
  if (reply->files().file().empty() ||
      !file.ParseFromString(reply->files().file(0))) {
    return absl::DataLossError("reflection: no file in its reply");
  }
  return file;
}

}  // namespace kiln

#include "tests/support/raw_call.h"

#include "grpcpp/generic/generic_stub.h"

namespace kiln {

grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                     grpc::ClientContext& context, const std::string& method,
                     const std::string& bytes, std::string& reply) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes);
  const auto call = stub.PrepareUnaryCall(&context, method,
                                          grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  grpc::Slice whole;
  if (status.ok() && answer.DumpToSingleSlice(&whole).ok()) {
    reply.assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  return status;
}

grpc::Status CallWithoutMessage(const std::shared_ptr<grpc::Channel>& channel,
                                grpc::ClientContext& context,
                                const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status;
}

}  // namespace kiln

// Data races on purpose, which no suppression may hide: the test beside this
// file checks that TSan ends the program for each.
//
//   planted_race thread        two plain threads
//   planted_race function_ref  below a frame of Abseil
//   planted_race callback      in a handler that gRPC's threads call
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace kiln {
namespace {

int unguarded = 0;

// Abseil in the signature, since suppressions name Abseil.
void Add(absl::Duration times) {
  for (int64_t i = 0; i < absl::ToInt64Seconds(times); ++i) ++unguarded;
}

void AddBelowAbseil(absl::Duration times) {
  const auto add = [times] { Add(times); };
  const absl::FunctionRef<void()> call = add;
  call();
}

void InTwoThreads(void (*race)(absl::Duration)) {
  std::thread first(race, absl::Seconds(1000));
  std::thread second(race, absl::Seconds(1000));
  first.join();
  second.join();
}

// Ends every call at once, after having raced with the others.
class RacyReactor final : public grpc::ServerGenericBidiReactor {
 public:
  RacyReactor() {
    Add(absl::Seconds(100'000));
    Finish(grpc::Status::OK);
  }
  void OnDone() override { delete this; }
};

class RacyService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new RacyReactor();
  }
};

void CallManyTimes(int port) {
  grpc::GenericStub stub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareUnaryCall(&context, "/racy/Call", request, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
  }
}

void InCallbacks() {
  RacyService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::thread first(CallManyTimes, port);
  std::thread second(CallManyTimes, port);
  first.join();
  second.join();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const std::string where = argc == 2 ? argv[1] : "";
  if (where == "thread") kiln::InTwoThreads(kiln::Add);
  if (where == "function_ref") kiln::InTwoThreads(kiln::AddBelowAbseil);
  if (where == "callback") kiln::InCallbacks();
  return 0;
}

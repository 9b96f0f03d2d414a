#include "server/front_door.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_posix.h"
#include "proto/base/status.h"
#include "server/tcp_address.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(
    const FrontDoorOptions& options, std::unique_ptr<ListenSocket> socket,
    const std::vector<grpc::Service*>& services, Counters& counters) {
  auto door = absl::WrapUnique(new FrontDoor());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Reflection alone is synchronous: one thread for it is plenty.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<int64_t>(
      2 * options.max_message_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  if (!options.tcp.empty()) {
    RETURN_IF_ERROR(CheckTcpAddress(options.tcp, /*least_port=*/0));
    builder.AddListeningPort(options.tcp, grpc::InsecureServerCredentials(),
                             &door->tcp_port_);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  door->server_ = builder.BuildAndStart();
  if (door->server_ == nullptr ||
      (!options.tcp.empty() && door->tcp_port_ == 0)) {
    return MakeError(
        ErrorReason::kStorage,
        absl::StrCat("tcp ", options.tcp,
                     ": can't be bound; is another daemon there?"));
  }
  if (socket != nullptr) {
    grpc::Server* server = door->server_.get();
    ASSIGN_OR_RETURN(
        door->accept_loop_,
        AcceptLoop::Start(
            std::move(*socket), options.allowed_uid, counters,
            [server](int fd) { grpc::AddInsecureChannelFromFd(server, fd); }));
  }
  return door;
}

FrontDoor::~FrontDoor() { Shut(absl::ZeroDuration()); }

void FrontDoor::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void FrontDoor::Shut(absl::Duration grace) {
  accept_loop_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
}

}  // namespace kiln

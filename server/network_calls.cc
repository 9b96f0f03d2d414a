#include "server/network_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/status.h"
#include "proto/health.pb.h"
#include "server/access/caller.h"
#include "server/admitted_call.h"
#include "server/open_connections.h"
#include "server/tls_files.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

// A call that is answered before anything of it is read, and its place among
// those of strangers.
class Answered final : public grpc::ServerGenericBidiReactor {
 public:
  Answered(FairShare::Part place, ConnectionWatch::WatchedCall watched,
           const grpc::Status& status, const grpc::ByteBuffer& reply)
      : place_(std::move(place)), watched_(std::move(watched)), reply_(reply) {
    if (status.ok()) {
      StartWriteAndFinish(&reply_, grpc::WriteOptions(), status);
    } else {
      Finish(status);
    }
  }
  void OnCancel() override { watched_.HearReset(); }
  void OnDone() override { delete this; }

 private:
  const FairShare::Part place_;
  ConnectionWatch::WatchedCall watched_;
  const grpc::ByteBuffer reply_;
};

// Whose places a call takes, of a peer as gRPC names it: "ipv4:127.0.0.1:50000",
// "ipv6:%5B::1%5D:50000".
std::string HolderAt(const std::string& peer) {
  absl::string_view address = peer;
  address = address.substr(0, address.rfind(':'));
  address = address.substr(std::min(address.size(), address.find(':') + 1));
  absl::ConsumePrefix(&address, "%5B");
  absl::ConsumeSuffix(&address, "%5D");
  return ConnectionHolder(address);
}

}  // namespace

absl::Status NetworkCalls::Allow(
    const grpc::CallbackServerContext& context) const {
  ASSIGN_OR_RETURN(const Caller caller, gate_.Admit(context));
  return gate_.RequireSomewhere(caller, Role::kReader, "call");
}

template <typename Method>
grpc::ServerGenericBidiReactor* NetworkCalls::Call(
    grpc::GenericCallbackServerContext* context, const Method& method,
    BegunCalls::Heard begun) {
  const absl::Status allowed = Allow(*context);
  if (allowed.ok()) {
    return NewAdmittedCall(
        context, method, watch_.HearCaller(context->peer(), std::move(begun)));
  }
  return Answer(context, std::move(begun), EndCall(*context, allowed));
}

grpc::ServerGenericBidiReactor* NetworkCalls::Answer(
    grpc::GenericCallbackServerContext* context, BegunCalls::Heard begun,
    const grpc::Status& status, const grpc::ByteBuffer& reply) {
  ConnectionWatch::WatchedCall watched =
      watch_.HearStranger(context->peer(), std::move(begun));
  absl::StatusOr<FairShare::Part> place =
      strangers_.Take(HolderAt(context->peer()));
  if (!status.ok() || !place.ok()) counters_.Add(Count::kCallsRefused);
  if (place.ok())
    return new Answered(*std::move(place), std::move(watched), status, reply);
  // The peer has answers waiting that it does not take: this one would wait too.
  context->TryCancel();
  return new Answered({}, std::move(watched), grpc::Status::CANCELLED, {});
}

grpc::ServerGenericBidiReactor* NetworkCalls::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  BegunCalls::Heard begun =
      begun_ == nullptr ? BegunCalls::Heard()
                        : begun_->Hear(TlsConnection(*context->auth_context()));
  if (begun.others_refused()) watch_.HearFlood(context->peer());
  if (watch_.IsEnded(context->peer())) {
    context->TryCancel();
    return new Answered({}, ConnectionWatch::WatchedCall(std::move(begun)),
                        grpc::Status::CANCELLED, {});
  }
  const std::string& path = context->method();
  if (const auto unary = methods_.unary.find(path);
      unary != methods_.unary.end()) {
    return Call(context, unary->second, std::move(begun));
  }
  if (const auto stream = methods_.streams.find(path);
      stream != methods_.streams.end()) {
    return Call(context, stream->second, std::move(begun));
  }
  if (path == kCheck) {
    HealthCheckResponse response;
    response.set_status(serving_ ? HealthCheckResponse::SERVING
                                 : HealthCheckResponse::NOT_SERVING);
    return Answer(context, std::move(begun), grpc::Status::OK,
                  Encode(response));
  }
  if (path == kWatch) {
    return Answer(
        context, std::move(begun),
        grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                     "health: found Watch at the network's door, which "
                     "answers Check alone"));
  }
  return Answer(context, std::move(begun),
                grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
}

}  // namespace kiln

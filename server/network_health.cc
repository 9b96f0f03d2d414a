#include "server/network_health.h"

#include <string>
#include <utility>

#include "proto/health.pb.h"
#include "server/wire_status.h"

namespace kiln {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

// A call that is answered before anything of it is read.
class Answered final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Answered(const grpc::Status& status) { Finish(status); }
  explicit Answered(grpc::ByteBuffer reply) : reply_(std::move(reply)) {
    StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const grpc::ByteBuffer reply_;
};

}  // namespace

grpc::ServerGenericBidiReactor* NetworkHealth::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  if (context->method() == kCheck) {
    HealthCheckResponse response;
    response.set_status(serving_ ? HealthCheckResponse::SERVING
                                 : HealthCheckResponse::NOT_SERVING);
    return new Answered(Encode(response));
  }
  if (context->method() == kWatch) {
    counters_.Add(Count::kCallsRefused);
    return new Answered(
        grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                     "health: found Watch at the network's door, which "
                     "answers Check alone"));
  }
  return new Answered(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
}

}  // namespace kiln

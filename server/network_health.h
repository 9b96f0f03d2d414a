#ifndef KILN_SERVER_NETWORK_HEALTH_H_
#define KILN_SERVER_NETWORK_HEALTH_H_

#include <atomic>

#include "grpcpp/generic/async_generic_service.h"
#include "server/counters.h"

namespace kiln {

// gRPC's health protocol at a door where nobody knows who asks, so that whoever asks
// costs nothing once answered: Check reads no message, and tells of the daemon
// whatever service is named; Watch, which would hold a call for as long as its caller
// likes, is refused with UNIMPLEMENTED, as clients that balance by health expect of a
// server without it, and counted. Thread-safe.
//
// A generic service, which has all calls that are no registered method's: gRPC reads
// the message of those before it asks anybody.
class NetworkHealth final : public grpc::CallbackGenericService {
 public:
  explicit NetworkHealth(Counters& counters) : counters_(counters) {}

  void SetServing(bool serving) { serving_ = serving; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  Counters& counters_;
  std::atomic<bool> serving_ = false;
};

}  // namespace kiln

#endif  // KILN_SERVER_NETWORK_HEALTH_H_

#ifndef KILN_SERVER_NETWORK_CALLS_H_
#define KILN_SERVER_NETWORK_CALLS_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/generic/async_generic_service.h"
#include "server/access/gatekeeper.h"
#include "server/begun_calls.h"
#include "server/connection_watch.h"
#include "server/counters.h"
#include "server/fair_share.h"
#include "server/raw_methods.h"

namespace kiln {

// Calls of strangers under way at once, of which an address (of IPv6 a /64) has its
// share. One is answered at once, but it lasts until its peer has taken the answer.
inline constexpr int64_t kMostStrangersCalls = 1024;

// All calls at the network's door. gRPC reads the message of a registered method
// before it asks anybody, so there is none here: who may not call, or has no role in
// any namespace, is refused, typed, when the headers are there. Of the message no more
// has come then than what HTTP/2 lets a client send unasked. What is answered so is a
// stranger's call; those beyond kMostStrangersCalls are cancelled.
//
// Beside the methods it has gRPC's health protocol, for everybody, so that whoever
// asks costs nothing once answered: Check reads no message, and tells of the daemon
// whatever service is named; Watch, which would hold a call for as long as its caller
// likes, is refused with UNIMPLEMENTED, as clients that balance by health expect of a
// server without it, and counted. Thread-safe.
class NetworkCalls final : public grpc::CallbackGenericService {
 public:
  // `gate`, `counters`, `watch`, which hears of each call, and `begun` outlive this.
  // `begun` is null where calls are not counted from their headers on: without TLS.
  NetworkCalls(const Gatekeeper& gate, RawMethods methods, Counters& counters,
               ConnectionWatch& watch, BegunCalls* begun)
      : gate_(gate),
        methods_(std::move(methods)),
        counters_(counters),
        watch_(watch),
        begun_(begun) {}

  // What Check says: SERVING, or NOT_SERVING.
  void SetServing(bool serving) { serving_ = serving; }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

 private:
  absl::Status Allow(const grpc::CallbackServerContext& context) const;
  template <typename Method>
  grpc::ServerGenericBidiReactor* Call(
      grpc::GenericCallbackServerContext* context, const Method& method,
      BegunCalls::Heard begun);
  // Ends the call of a stranger: with `status`, or the reply if that is OK.
  grpc::ServerGenericBidiReactor* Answer(
      grpc::GenericCallbackServerContext* context, BegunCalls::Heard begun,
      const grpc::Status& status,
      const grpc::ByteBuffer& reply = grpc::ByteBuffer());

  const Gatekeeper& gate_;
  const RawMethods methods_;
  Counters& counters_;
  ConnectionWatch& watch_;
  BegunCalls* const begun_;
  FairShare strangers_{"calls of strangers at",
                       {.places = kMostStrangersCalls}};
  std::atomic<bool> serving_ = false;
};

}  // namespace kiln

#endif  // KILN_SERVER_NETWORK_CALLS_H_

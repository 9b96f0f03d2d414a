#ifndef KILN_SERVER_FRONT_DOOR_H_
#define KILN_SERVER_FRONT_DOOR_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/accept_loop.h"
#include "server/counters.h"
#include "server/listen_socket.h"

namespace kiln {

struct FrontDoorOptions {
  std::string socket;     // path; empty: none
  uid_t allowed_uid = 0;  // who may connect to the socket
  std::string tcp;        // "127.0.0.1:0"; empty: none
  // gRPC refuses messages over twice this; the services refuse, with a typed
  // error, those over this.
  int64_t max_message_bytes = 0;
};

// The gRPC server with its doors: a Unix socket whose peers are looked at
// before gRPC sees them, and TCP where configured. Serves the given services,
// gRPC's health service and reflection.
//
// Thread-safe once started.
class FrontDoor {
 public:
  // `services` and `counters` outlive the door. `socket` is open already, so
  // that a second daemon is refused before anything is started; null: none.
  //
  // STORAGE, naming the address, when TCP can't be bound. BAD_OPTION when it is
  // no address.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(
      const FrontDoorOptions& options, std::unique_ptr<ListenSocket> socket,
      const std::vector<grpc::Service*>& services, Counters& counters);

  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;
  // Ends at once what Shut has not ended.
  ~FrontDoor();

  // What the health service says: SERVING, or NOT_SERVING.
  void SetServing(bool serving);

  // Takes no more connections and calls; waits for calls under way, at most
  // `grace`, then cancels them.
  void Shut(absl::Duration grace);

  // The port that TCP got; 0 without TCP.
  int tcp_port() const { return tcp_port_; }

 private:
  FrontDoor() = default;

  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<AcceptLoop> accept_loop_;  // hands to server_: ends first
  int tcp_port_ = 0;
};

}  // namespace kiln

#endif  // KILN_SERVER_FRONT_DOOR_H_

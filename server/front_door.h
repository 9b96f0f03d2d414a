#ifndef KILN_SERVER_FRONT_DOOR_H_
#define KILN_SERVER_FRONT_DOOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/ticker.h"
#include "grpcpp/grpcpp.h"
#include "proto/base/clock.h"
#include "proto/base/steady_time.h"
#include "server/accept_loop.h"
#include "server/access/audit_log.h"
#include "server/access/gatekeeper.h"
#include "server/access/peer_numbers.h"
#include "server/begun_calls.h"
#include "server/connection_watch.h"
#include "server/counters.h"
#include "server/doorstep.h"
#include "server/listen_socket.h"
#include "server/network_calls.h"
#include "server/open_connections.h"
#include "server/peer_rates.h"
#include "server/raw_methods.h"
#include "server/tcp_listener.h"
#include "server/tls_files.h"

namespace kiln {

struct FrontDoorOptions {
  // "127.0.0.1:0"; empty: none.
  std::string tcp;
  // Of the network door; empty: plain, for tests and first steps, on a loopback
  // address alone.
  TlsFiles tls;
  // gRPC refuses messages over twice this; the services refuse, with a typed
  // error, those over this.
  int64_t max_message_bytes = 0;
  // What gRPC may hold, at each door, of messages on their way. Beyond it, it reads
  // less there, and ends connections.
  int64_t buffer_bytes = int64_t{512} << 20;
  // How long a connection may say nothing, or not finish its handshake.
  absl::Duration handshake_time = absl::Seconds(10);
  // How often an address (of IPv6 a /64) may connect to the network's door; more often
  // is closed before the handshake. At once: a thousand ranks behind one address, all
  // of which come again; then as many a second as cost a few hundredths of a core.
  Rate handshakes = {.at_once = 4096, .a_second = 64};
  // A peer that makes no call any more holds a descriptor for so long. A client
  // connects again.
  absl::Duration idle_time = absl::Minutes(15);
  // Of the network's door: what its connections may send without a call.
  QuietLimits quiet;
  // Of each door. More connections are closed at once.
  ConnectionLimits connections = LimitsForDescriptors(1024);
};

// What is served at each door. The services may be the same ones.
struct DoorServices {
  std::vector<grpc::Service*> socket;
  RawMethods network;
};

// The doors, a gRPC server each: the Unix socket, whose peers are looked at before
// gRPC sees them, with reflection and gRPC's health service; and TCP where it is
// configured, with NetworkCalls.
//
// Thread-safe once started.
class FrontDoor {
 public:
  // What the doors stand on; all outlives them. `peers` learns who is behind
  // each connection of the socket.
  struct Rooms {
    const Gatekeeper& gate;
    PeerNumbers& peers;
    AuditLog& audit;  // learns of connections that are refused
    Counters& counters;
    const Clock& clock;
    // Hears of the socket's connections, whose calls tell it of resets. Null: nobody
    // counts those.
    ConnectionWatch* at_socket = nullptr;
  };

  // The services outlive the doors. `socket` is open already, so that a second
  // daemon is refused before anything is started; null: none.
  //
  // STORAGE, naming the address, when TCP can't be bound. BAD_OPTION when it is
  // no address, or plain and no loopback address, or a TLS file is bad.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(
      const FrontDoorOptions& options, std::unique_ptr<ListenSocket> socket,
      DoorServices services, const Rooms& rooms);

  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;
  // Ends at once what Shut has not ended.
  ~FrontDoor();

  // What the health service says: SERVING, or NOT_SERVING.
  void SetServing(bool serving);

  // Whether users beside the owner reach the socket's file. Not once it is shut. STORAGE
  // when its mode can't be set.
  absl::Status SetForOthers(bool for_others);

  // Takes no more connections and calls; waits for calls under way, at most
  // `grace` in all, then cancels them.
  void Shut(absl::Duration grace);

  // The port that TCP got; 0 without TCP.
  int tcp_port() const { return listener_.has_value() ? listener_->port() : 0; }

 private:
  FrontDoor() = default;
  absl::Status OpenSocket(const FrontDoorOptions& options, ListenSocket socket,
                          const std::vector<grpc::Service*>& services,
                          const Rooms& rooms);
  absl::Status OpenNetwork(const FrontDoorOptions& options, RawMethods methods,
                           const Rooms& rooms);

  // Of the network.
  void WatchConnections(const FrontDoorOptions& options, const Rooms& rooms);

  // Each on the thread of its loop, the last on its doorstep's.
  void TakeFromSocket(int fd, const Rooms& rooms);
  void TakeFromNetwork(int fd, Counters& counters);
  // Whether `holder` is not barred; closes the connection otherwise.
  static bool MayConnect(const ConnectionWatch& watch,
                         const std::string& holder, int fd, Counters& counters);
  void HandToNetwork(int fd);
  // Whether one more connection fits; closes it otherwise.
  bool Fits(OpenConnections& door, int fd, absl::string_view peer,
            Counters& counters);

  std::unique_ptr<OpenConnections> at_socket_;
  std::unique_ptr<OpenConnections> at_network_;
  std::unique_ptr<ConnectionWatch> watch_;  // of the network
  std::unique_ptr<BegunCalls> begun_;  // of the same; null where it is plain
  std::unique_ptr<NetworkCalls> network_calls_;
  std::shared_ptr<grpc::ServerCredentials> network_credentials_;
  std::unique_ptr<grpc::Server> socket_server_;
  std::unique_ptr<grpc::Server> network_server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>
      network_acceptor_;
  std::optional<ListenSocket> socket_;
  std::optional<TcpListener> listener_;
  int tcp_port_ = 0;
  std::optional<Ticker> sweeps_;  // of the watch
  std::unique_ptr<Doorstep> socket_step_;
  std::unique_ptr<Doorstep> network_step_;
  // Hand on what the sockets above accept: they end first.
  std::unique_ptr<AcceptLoop> socket_loop_;
  std::unique_ptr<AcceptLoop> network_loop_;
};

}  // namespace kiln

#endif  // KILN_SERVER_FRONT_DOOR_H_

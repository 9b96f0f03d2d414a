#include "server/front_door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "grpcpp/ext/health_check_service_server_builder_option.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/server_posix.h"
#include "proto/base/bounded_log.h"
#include "proto/base/grpc_deadline.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "proto/base/tcp_address.h"
#include "proto/health.pb.h"

namespace kiln {
namespace {

// Reflection tells what a daemon has: it is a plugin of every server that gRPC
// builds in this process, unless it is taken out.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
  }
};

// How much a flood of bytes that are no call's gets beyond its limit.
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(50);
// Calls of one connection at once. At the socket those of a whole node's ranks; on
// the network HTTP/2's usual most, since a stranger may begin as many.
constexpr int kMostSocketStreams = 1024;
constexpr int kMostNetworkStreams = 128;

void Prepare(grpc::ServerBuilder& builder, const FrontDoorOptions& options,
             const std::vector<grpc::Service*>& services,
             absl::string_view name, int most_streams) {
  // Reflection alone is synchronous: one thread for it is plenty.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<int64_t>(
      2 * options.max_message_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  // What is small on the wire stays so: no message is inflated before its size is
  // looked at.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  // A door's own: where a quota is used up gRPC reads less and ends connections. With
  // one for both doors, callers of the network would end those of the socket.
  grpc::ResourceQuota quota{std::string(name)};
  quota.Resize(static_cast<size_t>(options.buffer_bytes));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, most_streams);
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONNECTION_IDLE_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.idle_time)));
  builder.AddChannelArgument(
      GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.handshake_time)));
  for (grpc::Service* service : services) builder.RegisterService(service);
}

// The user at the other end, as the kernel says.
std::optional<uid_t> UserAt(int fd) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return std::nullopt;
  return peer.uid;
}

std::string UserName(std::optional<uid_t> user) {
  return user.has_value() ? absl::StrCat("uid:", *user) : "uid:?";
}

// As gRPC calls peers, but for the port: that changes with each try, and is
// nobody's name.
std::string NetworkName(const std::string& address) {
  return absl::StrContains(address, ':')
             ? absl::StrCat("ipv6:%5B",
                            absl::StrReplaceAll(address, {{"%", "%25"}}), "%5D")
             : absl::StrCat("ipv4:", address);
}

void RefuseConnection(const std::string& who, absl::string_view why,
                      ErrorReason reason, const FrontDoor::Rooms& rooms) {
  rooms.audit.Record(who, "connect", why, MakeError(reason, why));
  // Last: whoever finds it counted finds it in the log.
  rooms.counters.Add(Count::kPeersRefused);
}

void ShutServer(grpc::Server* server, SteadyTime deadline) {
  if (server == nullptr) return;
  server->Shutdown(ToGrpcDeadline(deadline));
  server->Wait();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(
    const FrontDoorOptions& options, std::unique_ptr<ListenSocket> socket,
    DoorServices services, const Rooms& rooms) {
  auto door = absl::WrapUnique(new FrontDoor());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  // Reflection shows the files that are linked in; nothing else names this one.
  google::protobuf::LinkMessageReflection<
      grpc::health::v1::HealthCheckRequest>();
  if (!options.tcp.empty())
    RETURN_IF_ERROR(
        door->OpenNetwork(options, std::move(services.network), rooms));
  if (socket != nullptr) {
    RETURN_IF_ERROR(
        door->OpenSocket(options, std::move(*socket), services.socket, rooms));
  }
  return door;
}

absl::Status FrontDoor::OpenSocket(const FrontDoorOptions& options,
                                   ListenSocket socket,
                                   const std::vector<grpc::Service*>& services,
                                   const Rooms& rooms) {
  grpc::ServerBuilder builder;
  Prepare(builder, options, services, "socket", kMostSocketStreams);
  socket_server_ = builder.BuildAndStart();
  if (socket_server_ == nullptr)
    return absl::InternalError("gRPC started no server for the socket");
  at_socket_ = std::make_unique<OpenConnections>(options.connections);
  socket_.emplace(std::move(socket));
  // What is handed to gRPC here has no time to shake hands in: HTTP/2's preface comes
  // before that, and what follows it has the limit of any idle connection.
  const auto pass = [this](int fd) {
    grpc::AddInsecureChannelFromFd(socket_server_.get(), fd);
  };
  const auto refuse = [rooms](int fd, absl::string_view why) {
    RefuseConnection(UserName(UserAt(fd)), why, ErrorReason::kUnauthenticated,
                     rooms);
  };
  ASSIGN_OR_RETURN(socket_step_,
                   Doorstep::Start({.due = Greeting::kHttp2,
                                    .patience = options.handshake_time},
                                   rooms.clock, {pass, refuse, nullptr}));
  ASSIGN_OR_RETURN(socket_loop_,
                   AcceptLoop::Start({socket_->fd()}, [this, rooms](int fd) {
                     TakeFromSocket(fd, rooms);
                   }));
  return absl::OkStatus();
}

void FrontDoor::TakeFromSocket(int fd, const Rooms& rooms) {
  const std::optional<uid_t> user = UserAt(fd);
  if (!user.has_value() || !rooms.gate.MayConnect(*user)) {
    RefuseConnection(UserName(user), "", ErrorReason::kPermission, rooms);
    LogBounded("peer.refused", UserName(user), "no access rule names it");
    close(fd);  // whoever sees that finds it counted
    return;
  }
  const absl::StatusOr<int> number = rooms.peers.Bind(fd, *user);
  if (!number.ok()) {
    LogBounded("peer.lost", UserName(user), number.status().message());
    return;
  }
  // The owner may have them all: there is nobody else to keep them for.
  const std::string peer =
      rooms.gate.IsOwner(*user) ? "" : absl::StrCat("uid:", *user);
  if (!Fits(*at_socket_, *number, peer, rooms.counters)) return;
  if (ConnectionWatch* const watch = rooms.at_socket) {
    if (!MayConnect(*watch, peer, *number, rooms.counters)) return;
    const std::string name = absl::StrCat("fd:", *number);
    watch->Add(*number, name, peer);
    watch->HearStranger(name);  // one that makes no call stays unknown
  }
  rooms.counters.Add(Count::kPeersAccepted);
  socket_step_->Take(*number, "");  // nothing is signed here
}

bool FrontDoor::MayConnect(const ConnectionWatch& watch,
                           const std::string& holder, int fd,
                           Counters& counters) {
  if (watch.MayConnect(holder)) return true;
  counters.Add(Count::kPeersTooOften);
  close(fd);
  LogBounded("peer.too_often", holder, "has reset calls without end");
  return false;
}

bool FrontDoor::Fits(OpenConnections& door, int fd, absl::string_view peer,
                     Counters& counters) {
  const absl::Status added = door.Add(fd, peer);
  if (added.ok()) return true;
  counters.Add(Count::kPeersTooMany);
  close(fd);
  LogBounded("peer.too_many", peer, added.message());
  return false;
}

absl::Status FrontDoor::OpenNetwork(const FrontDoorOptions& options,
                                    RawMethods methods, const Rooms& rooms) {
  RETURN_IF_ERROR(
      Annotate(CheckTcpAddress(options.tcp, /*least_port=*/0), "tcp"));
  const bool plain = options.tls.certificate.empty();
  if (plain) RETURN_IF_ERROR(CheckLoopback(options.tcp));
  if (!plain) RETURN_IF_ERROR(Annotate(CheckTlsFiles(options.tls), "TLS"));
  grpc::ServerBuilder builder;
  Prepare(builder, options, {}, "network", kMostNetworkStreams);
  // gRPC would let a fast peer send megabytes of a call before anybody looks at it.
  // Of a message that is read it takes 1 MiB a round trip all the same.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  WatchConnections(options, rooms);
  if (!plain) {
    begun_ = std::make_unique<BegunCalls>(BegunCalls::Limits(), rooms.clock);
  }
  builder.SetOption(std::make_unique<WithoutReflection>());
  builder.SetOption(
      std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
  network_calls_ = std::make_unique<NetworkCalls>(
      rooms.gate, std::move(methods), rooms.counters, *watch_, begun_.get());
  builder.RegisterCallbackGenericService(network_calls_.get());
  using FromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  network_credentials_ = plain ? grpc::InsecureServerCredentials()
                               : ServerTls(options.tls, begun_.get());
  network_acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      FromFd::FROM_FD, network_credentials_);
  network_server_ = builder.BuildAndStart();
  if (network_server_ == nullptr)
    return absl::InternalError("gRPC started no server for the network");
  at_network_ = std::make_unique<OpenConnections>(options.connections);
  ASSIGN_OR_RETURN(TcpListener listener, TcpListener::Open(options.tcp));
  listener_.emplace(std::move(listener));
  tcp_port_ = listener_->port();
  const auto refuse = [rooms](int fd, absl::string_view why) {
    RefuseConnection(NetworkName(PeerAddress(fd)), why,
                     ErrorReason::kUnauthenticated, rooms);
  };
  const auto put_off = [rooms](int, const std::string& peer) {
    rooms.counters.Add(Count::kPeersTooOften);
    LogBounded("peer.too_often", peer, "connects more often than it may");
  };
  ASSIGN_OR_RETURN(
      network_step_,
      Doorstep::Start(
          {.due = plain ? Greeting::kAny : Greeting::kTls,
           .patience = options.handshake_time,
           .passes = options.handshakes},
          rooms.clock,
          {[this](int fd) { HandToNetwork(fd); }, refuse, put_off}));
  ASSIGN_OR_RETURN(network_loop_,
                   AcceptLoop::Start(listener_->fds(), [this, rooms](int fd) {
                     TakeFromNetwork(fd, rooms.counters);
                   }));
  return absl::OkStatus();
}

void FrontDoor::WatchConnections(const FrontDoorOptions& options,
                                 const Rooms& rooms) {
  watch_ = std::make_unique<ConnectionWatch>(
      options.quiet, rooms.clock,
      [rooms](const std::string& peer, absl::string_view why) {
        RefuseConnection(peer.substr(0, peer.rfind(':')), why,
                         ErrorReason::kUnauthenticated, rooms);
      });
  sweeps_.emplace(kSweepPeriod, [this](const std::atomic<bool>&) {
    watch_->Sweep(SteadyNow());
  });
}

void FrontDoor::TakeFromNetwork(int fd, Counters& counters) {
  const std::string address = PeerAddress(fd);
  const std::string holder = ConnectionHolder(address);
  if (!MayConnect(*watch_, holder, fd, counters) ||
      !Fits(*at_network_, fd, address, counters)) {
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  network_step_->Take(fd, holder);
}

void FrontDoor::HandToNetwork(int fd) {
  const std::string address = PeerAddress(fd);
  watch_->Add(fd, absl::StrCat(NetworkName(address), ":", PeerPort(fd)),
              ConnectionHolder(address));
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
      connection;
  connection.fd = fd;
  network_acceptor_->HandleNewConnection(&connection);
}

FrontDoor::~FrontDoor() { Shut(absl::ZeroDuration()); }

void FrontDoor::SetServing(bool serving) {
  if (socket_server_ != nullptr)
    socket_server_->GetHealthCheckService()->SetServingStatus(serving);
  if (network_calls_ != nullptr) network_calls_->SetServing(serving);
}

absl::Status FrontDoor::SetForOthers(bool for_others) {
  return socket_.has_value() ? socket_->SetForOthers(for_others)
                             : absl::OkStatus();
}

void FrontDoor::Shut(absl::Duration grace) {
  socket_loop_.reset();
  network_loop_.reset();
  socket_step_.reset();
  network_step_.reset();
  socket_.reset();
  listener_.reset();
  sweeps_.reset();
  const SteadyTime deadline = SteadyIn(grace);
  ShutServer(network_server_.get(), deadline);
  ShutServer(socket_server_.get(), deadline);
}

}  // namespace kiln

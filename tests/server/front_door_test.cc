#include "server/front_door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"
#include "proto/base/status.h"
#include "proto/compile_service.grpc.pb.h"
#include "server/access/audit_log.h"
#include "server/access/gatekeeper.h"
#include "server/access/open_folder.h"
#include "server/access/token_store.h"
#include "tests/support/health_client.h"
#include "tests/support/raw_call.h"
#include "tests/support/raw_http2.h"
#include "tests/support/reflection_client.h"
#include "tests/support/short_folder.h"

namespace kiln {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string AuditIn(const std::string& folder) {
  std::ifstream in(absl::StrCat(folder, "/audit.log"));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What doors stand on.
struct DoorRooms {
  DoorRooms(const std::string& folder, uid_t owner,
            bool network_is_plain = true)
      : tokens(*TokenStore::Open(*OpenFolder::Open(folder), clock)),
        audit(*AuditLog::Open(*OpenFolder::Open(folder), clock)),
        gate({peers, *tokens, *audit, counters},
             {.owner = owner, .network_is_plain = network_is_plain}) {}

  FrontDoor::Rooms rooms() { return {gate, peers, *audit, counters, clock}; }

  const RealClock clock;
  Counters counters;
  PeerNumbers peers{clock};
  const std::unique_ptr<TokenStore> tokens;
  const std::unique_ptr<AuditLog> audit;
  const Gatekeeper gate;
};

struct Door {
  explicit Door(uid_t allowed_uid = getuid(), bool stale_file = false) {
    if (stale_file) {
      const sockaddr_un address = AddressOf(path);
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)),
                0);
      close(fd);
    }
    auto socket = ListenSocket::Open(path);
    EXPECT_TRUE(socket.ok()) << socket.status();
    rooms = std::make_unique<DoorRooms>(folder.path(), allowed_uid);
    auto opened = FrontDoor::Open(
        {.max_message_bytes = 1 << 20},
        std::make_unique<ListenSocket>(*std::move(socket)), {}, rooms->rooms());
    EXPECT_TRUE(opened.ok()) << opened.status();
    door = *std::move(opened);
    door->SetServing(true);
  }

  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  std::unique_ptr<DoorRooms> rooms;
  std::unique_ptr<FrontDoor> door;
};

TEST(FrontDoor, AnOwnersCallGoesThroughTheSocket) {
  Door d;
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
  EXPECT_EQ(d.rooms->counters.Get(Count::kPeersAccepted), 1);
  d.door->SetServing(false);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "NOT_SERVING");
}

TEST(FrontDoor, TheSocketIsItsOwnersAlone) {
  Door d;
  struct stat info = {};
  ASSERT_EQ(stat(d.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(FrontDoor, AnotherUsersConnectionIsClosedAndCounted) {
  Door d(/*allowed_uid=*/getuid() + 1);
  EXPECT_TRUE(
      absl::StartsWith(AskHealth(absl::StrCat("unix:", d.path)), "error 14"));
  EXPECT_EQ(d.rooms->counters.Get(Count::kPeersAccepted), 0);
  EXPECT_GE(d.rooms->counters.Get(Count::kPeersRefused), 1);
  EXPECT_TRUE(
      absl::StrContains(AuditIn(d.folder.path()),
                        absl::StrCat("\"who\":\"uid:", getuid(),
                                     "\",\"what\":\"connect\",\"subject\":\"\","
                                     "\"outcome\":\"PERMISSION\"")));
}

// Reads until the other end closes.
void AwaitClosed(int fd) {
  char byte;
  while (read(fd, &byte, 1) > 0) {
  }
  close(fd);
}

// A connection to the network's door. `from`: an address of this machine.
int ConnectTo(int port, in_addr_t from = INADDR_LOOPBACK) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in local = {};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(from);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&local), sizeof(local)),
            0);
  sockaddr_in remote = {};
  remote.sin_family = AF_INET;
  remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  remote.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&remote), sizeof(remote)),
      0);
  return fd;
}

// A connection to the socket.
int ConnectTo(const std::string& path) {
  const sockaddr_un local = AddressOf(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&local), sizeof(local)), 0);
  return fd;
}

// One on which this was said.
int ConnectTo(const std::string& path, const std::string& said) {
  const int fd = ConnectTo(path);
  EXPECT_EQ(send(fd, said.data(), said.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(said.size()));
  return fd;
}

TEST(FrontDoor, AnotherUsersConnectionsAreOneLineOfTheLog) {
  constexpr int kConnections = 200;
  Mutex mu;
  int lines = 0;
  ASSERT_TRUE(ConfigureLog({.sink = [&](absl::string_view line) {
                MutexLock lock(&mu);
                if (absl::StrContains(line, "peer.refused")) ++lines;
              }}).ok());
  {
    Door d(/*allowed_uid=*/getuid() + 1);
    for (int i = 0; i < kConnections; ++i) AwaitClosed(ConnectTo(d.path));
    EXPECT_EQ(d.rooms->counters.Get(Count::kPeersRefused), kConnections);
  }
  ASSERT_TRUE(ConfigureLog({}).ok());
  MutexLock lock(&mu);
  // The second tells how many there were, should a minute pass here. The first may be
  // another test's.
  EXPECT_LE(lines, 2);
}

TEST(FrontDoor, ASilentPeerIsClosed) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  wire::CompileService::CallbackService service;
  const auto opened =
      FrontDoor::Open({.tcp = "127.0.0.1:0",
                       .max_message_bytes = 1 << 20,
                       .handshake_time = absl::Milliseconds(100)},
                      std::make_unique<ListenSocket>(*ListenSocket::Open(path)),
                      {.socket = {&service}}, rooms.rooms());
  ASSERT_TRUE(opened.ok()) << opened.status();
  AwaitClosed(ConnectTo(path, ""));
  AwaitClosed(ConnectTo((*opened)->tcp_port()));
  const std::string audit = AuditIn(folder.path());
  for (const std::string& who :
       {absl::StrCat("uid:", getuid()), std::string("ipv4:127.0.0.1")}) {
    EXPECT_TRUE(absl::StrContains(
        audit, absl::StrCat("\"who\":\"", who,
                            "\",\"what\":\"connect\",\"subject\":"
                            "\"says nothing\",\"outcome\":"
                            "\"UNAUTHENTICATED\"")))
        << audit;
  }
  EXPECT_EQ(rooms.counters.Get(Count::kPeersRefused), 2);
}

TEST(FrontDoor, APeerOfTheSocketThatStopsBeforeOrAfterItsPrefaceIsClosed) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  const auto opened =
      FrontDoor::Open({.max_message_bytes = 1 << 20,
                       .handshake_time = absl::Milliseconds(100),
                       .idle_time = absl::Seconds(1)},
                      std::make_unique<ListenSocket>(*ListenSocket::Open(path)),
                      {}, rooms.rooms());
  ASSERT_TRUE(opened.ok()) << opened.status();
  AwaitClosed(ConnectTo(path, Http2Preface().substr(0, 1)));
  AwaitClosed(ConnectTo(path, Http2Preface().substr(0, 23)));
  EXPECT_EQ(rooms.counters.Get(Count::kPeersRefused), 2);
  AwaitClosed(ConnectTo(path, Http2Preface()));
  EXPECT_EQ(rooms.counters.Get(Count::kPeersRefused), 2);
}

TEST(FrontDoor, MessagesThatAreHeldBackAtTheNetworkEndNoCallAtTheSocket) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  wire::CompileService::CallbackService service;
  // No message becomes whole, and so none is called.
  RawMethods methods;
  methods.unary["/kiln.wire.CompileService/Compile"] = nullptr;
  auto opened = FrontDoor::Open(
      {.tcp = "127.0.0.1:0",
       .max_message_bytes = 1 << 20,
       .buffer_bytes = 4 << 20,
       .connections = {.all = 1000, .of_a_peer = 1000}},
      std::make_unique<ListenSocket>(*ListenSocket::Open(path)),
      {.socket = {&service}, .network = methods}, rooms.rooms());
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetServing(true);
  const std::string address = absl::StrCat("unix:", path);
  // 8 MiB of messages of which the rest never comes. gRPC may hold half of that.
  const std::string held =
      UnfinishedCall("/kiln.wire.CompileService/Compile", 1 << 20);
  std::vector<int> callers;
  for (int i = 0; i < 128; ++i) {
    callers.push_back(ConnectTo((*opened)->tcp_port()));
    send(callers.back(), held.data(), held.size(), MSG_NOSIGNAL);
    EXPECT_EQ(AskHealth(address), "SERVING") << i;
  }
  for (const int fd : callers) close(fd);
}

TEST(FrontDoor, BytesThatAreNoGrpcHurtNobody) {
  Door d;
  const sockaddr_un address = AddressOf(d.path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  const std::string garbage(4096, 'x');
  EXPECT_GT(send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  char answer[256];
  while (read(fd, answer, sizeof(answer)) > 0) {
  }
  close(fd);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ASecondDaemonOnTheSocketIsRefusedByItsPath) {
  Door d;
  const auto second = ListenSocket::Open(d.path);
  EXPECT_EQ(ReasonOf(second.status()), ErrorReason::kInUse);
  EXPECT_TRUE(absl::StrContains(second.status().message(), d.path));
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ADaemonThatIsRefusedTheSocketLeavesTheOthersLock) {
  Door d;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ReasonOf(ListenSocket::Open(d.path).status()),
              ErrorReason::kInUse);
  }
}

TEST(FrontDoor, ALinkInThePlaceOfTheLockCutsNothingShort) {
  const ShortFolder folder;
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  const std::string victim = absl::StrCat(folder.path(), "/diary");
  std::ofstream(victim) << "a year's work";
  ASSERT_EQ(symlink(victim.c_str(), absl::StrCat(path, ".lock").c_str()), 0);
  const auto refused = ListenSocket::Open(path);
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kStorage);
  EXPECT_TRUE(absl::StrContains(refused.status().message(), ".lock"))
      << refused.status();
  std::ostringstream kept;
  kept << std::ifstream(victim).rdbuf();
  EXPECT_EQ(kept.str(), "a year's work");
}

TEST(FrontDoor, ASocketFileThatAKilledDaemonLeftIsReplaced) {
  Door d(getuid(), /*stale_file=*/true);
  EXPECT_EQ(AskHealth(absl::StrCat("unix:", d.path)), "SERVING");
}

TEST(FrontDoor, ShuttingRemovesTheSocket) {
  Door d;
  d.door->Shut(absl::ZeroDuration());
  EXPECT_NE(access(d.path.c_str(), F_OK), 0);
}

TEST(FrontDoor, AnAddressThatIsNoneIsRefused) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const auto opened =
      FrontDoor::Open({.tcp = "nonsense", .max_message_bytes = 1 << 20},
                      nullptr, {}, rooms.rooms());
  EXPECT_EQ(ReasonOf(opened.status()), ErrorReason::kBadOption);
}

TEST(FrontDoor, PlainTcpIsForThisMachineAlone) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const auto open = [&](const char* tcp) {
    return FrontDoor::Open({.tcp = tcp, .max_message_bytes = 1 << 20}, nullptr,
                           {}, rooms.rooms());
  };
  EXPECT_EQ(ReasonOf(open("0.0.0.0:0").status()), ErrorReason::kBadOption);
  const auto opened = open("127.0.0.1:0");
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetServing(true);
  const std::string address = absl::StrCat("127.0.0.1:", (*opened)->tcp_port());
  EXPECT_EQ(AskHealth(address), "SERVING");
}

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

// Asks by a message that never ends.
void AwaitHealthAt(int fd) {
  const std::string unfinished = UnfinishedCall(kHealthCheck, 1 << 20);
  send(fd, unfinished.data(), unfinished.size(), MSG_NOSIGNAL);
  std::string said;
  char bytes[4096];
  while (!absl::StrContains(said, "grpc-status")) {
    const ssize_t got = read(fd, bytes, sizeof(bytes));
    ASSERT_GT(got, 0);
    said.append(bytes, static_cast<size_t>(got));
  }
  close(fd);
}

TEST(FrontDoor, TheNetworkAnswersHealthChecksAndKeepsNoWatch) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const auto opened =
      FrontDoor::Open({.tcp = "127.0.0.1:0", .max_message_bytes = 1 << 20},
                      nullptr, {}, rooms.rooms());
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetServing(true);
  const std::string address = absl::StrCat("127.0.0.1:", (*opened)->tcp_port());
  EXPECT_EQ(AskHealth(address), "SERVING");
  const auto channel =
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  for (int i = 0; i < 1000; ++i) {
    grpc::ClientContext context;
    std::string reply;
    const grpc::Status refused =
        CallRaw(channel, context, "/grpc.health.v1.Health/Watch", "", reply);
    ASSERT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED) << i;
    ASSERT_TRUE(absl::StrContains(refused.error_message(), "Check"))
        << refused.error_message();
  }
  EXPECT_EQ(rooms.counters.Get(Count::kCallsRefused), 1000);
  // Not even the message of a check is waited for.
  AwaitHealthAt(ConnectTo((*opened)->tcp_port()));
  (*opened)->SetServing(false);
  EXPECT_EQ(AskHealth(address), "NOT_SERVING");
}

// A watch that ends no connection: what is bounded beside it.
constexpr QuietLimits kUnwatched = {.bytes = int64_t{1} << 40,
                                    .caller_bytes = int64_t{1} << 40,
                                    .all_bytes = int64_t{1} << 40,
                                    .begun_bytes = int64_t{1} << 40,
                                    .calls = 1 << 30,
                                    .resets = {.at_once = 1 << 30},
                                    .holder_resets = {.at_once = 1 << 30}};

// A network's door at which nobody is known, and a method that nobody reaches.
struct StrangersDoor {
  StrangersDoor() {
    RawMethods methods;
    methods.unary["/kiln.wire.CompileService/Compile"] = nullptr;
    auto opened = FrontDoor::Open({.tcp = "127.0.0.1:0",
                                   .max_message_bytes = 64 << 20,
                                   .quiet = kUnwatched},
                                  nullptr, {.network = methods}, rooms.rooms());
    EXPECT_TRUE(opened.ok()) << opened.status();
    door = *std::move(opened);
    door->SetServing(true);
  }
  int64_t refused() const { return rooms.counters.Get(Count::kCallsRefused); }

  const ShortFolder folder;
  DoorRooms rooms{folder.path(), getuid(), /*network_is_plain=*/false};
  std::unique_ptr<FrontDoor> door;
};

TEST(FrontDoor, StrangersAreRefusedBeforeTheirMessagesComeAndHoldNoneOfThem) {
  constexpr int kCalls = 2000;
  StrangersDoor d;
  RawHttp2 stranger(ConnectTo(d.door->tcp_port()));
  for (int i = 0; i < kCalls; ++i)
    stranger.Begin("/kiln.wire.CompileService/Compile", 64 << 20);
  while (stranger.ended_calls() < kCalls) stranger.SendAll();
  EXPECT_EQ(stranger.open_calls(), 0);
  EXPECT_EQ(d.refused(), kCalls);
}

TEST(FrontDoor, StrangersThatTakeNoAnswersHoldFewCallsAndFewBytesOfThem) {
  constexpr int kCalls = 2000;
  constexpr int kShare = kMostStrangersCalls / 2;
  StrangersDoor d;
  const int port = d.door->tcp_port();
  {
    RawHttp2 stranger(ConnectTo(port));
    for (int i = 0; i < kCalls; ++i) stranger.Begin(kHealthCheck, 64 << 20);
    while (stranger.ended_calls() < kCalls - kShare) stranger.SendAll();
    stranger.SendAll();
    EXPECT_EQ(stranger.open_calls(), kShare);
    EXPECT_EQ(d.refused(), kCalls - kShare);
    // What HTTP/2 lets a client send of a call before it hears of the server. All
    // that was sent of these is held: the server reads nothing of them.
    EXPECT_LE(stranger.bytes_of_open_calls(), int64_t{kShare} << 16);
    // Others have room.
    AwaitHealthAt(ConnectTo(port, INADDR_LOOPBACK + 1));
  }
  // And so has the address itself once its connection has gone.
  const std::string address = absl::StrCat("127.0.0.1:", port);
  while (AskHealth(address) != "SERVING") {
  }
}

TEST(FrontDoor, TheSocketTellsItsServicesAndTheNetworkDoesNot) {
  const ShortFolder folder;
  DoorRooms rooms(folder.path(), getuid());
  const std::string path = absl::StrCat(folder.path(), "/kilnd.sock");
  wire::CompileService::CallbackService service;
  auto opened =
      FrontDoor::Open({.tcp = "127.0.0.1:0", .max_message_bytes = 1 << 20},
                      std::make_unique<ListenSocket>(*ListenSocket::Open(path)),
                      {.socket = {&service}}, rooms.rooms());
  ASSERT_TRUE(opened.ok()) << opened.status();
  (*opened)->SetServing(true);
  const auto services = ServicesAt(absl::StrCat("unix:", path));
  ASSERT_TRUE(services.ok()) << services.status();
  EXPECT_THAT(*services, testing::Contains("grpc.health.v1.Health"));
  EXPECT_TRUE(absl::IsUnimplemented(
      ServicesAt(absl::StrCat("127.0.0.1:", (*opened)->tcp_port())).status()));
}

TEST(FrontDoor, ReflectionHasTheFileOfEachServiceThatItNames) {
  Door d;
  const std::string address = absl::StrCat("unix:", d.path);
  const auto file = FileAt(address, "grpc.health.v1.Health");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->package(), "grpc.health.v1");
  ASSERT_EQ(file->service_size(), 1);
  ASSERT_EQ(file->service(0).method_size(), 2);
  EXPECT_EQ(file->service(0).method(0).name(), "Check");
  EXPECT_EQ(file->service(0).method(1).name(), "Watch");
  EXPECT_TRUE(file->service(0).method(1).server_streaming());
  const auto services = ServicesAt(address);
  ASSERT_TRUE(services.ok()) << services.status();
  for (const std::string& service : *services) {
    EXPECT_TRUE(FileAt(address, service).ok()) << service;
  }
}

}  // namespace
}  // namespace kiln

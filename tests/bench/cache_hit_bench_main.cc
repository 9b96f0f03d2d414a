// How fast the daemon answers a cache hit, against an echo of as many raw bytes.
//
//   cache_hit_bench --kilnd=PATH --worker=PATH
//
// Starts a private kilnd and, in a process of its own, an echo server: gRPC's
// callback API, which hands one buffer out over and over and decodes nothing. Like
// the daemon, it has Abseil look for no cycles among locks.
// Compiles one graph whose artifact is about 32 KiB; then 16 callers ask both in
// turn, in rounds, so that a noisy machine troubles them alike: over Unix sockets,
// then over TCP, where both ends show certificates. Callers decode nothing either.
// Prints calls a second of each and the ratio of the medians. Exit 1 when
// something could not be run.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "proto/compile_service.grpc.pb.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/echo.grpc.pb.h"
#include "tests/support/test_ca.h"

namespace kiln {
namespace {

constexpr int kCallers = 16;
constexpr int kRounds = 9;
constexpr auto kRoundLength = std::chrono::milliseconds(700);
constexpr int kConstantBytes = 24 << 10;
constexpr char kEcho[] = "/kiln.bench.EchoService/Echo";
constexpr char kLookup[] = "/kiln.wire.CompileService/Lookup";

std::string FileBytes(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

class EchoService final : public bench::EchoService::WithRawCallbackMethod_Echo<
                              bench::EchoService::Service> {
 public:
  explicit EchoService(size_t bytes)
      : slice_(std::string(bytes, 'x')), payload_(&slice_, 1) {}
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer*,
                                 grpc::ByteBuffer* reply) override {
    *reply = payload_;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const grpc::Slice slice_;
  const grpc::ByteBuffer payload_;
};

// What one end of a connection shows, and the CA that it believes; no CA: plain.
struct Papers {
  std::string ca, certificate, key;
};

int RunEcho(const std::string& address, size_t bytes, const Papers& papers) {
  EchoService service(bytes);
  grpc::ServerBuilder builder;
  std::shared_ptr<grpc::ServerCredentials> credentials =
      grpc::InsecureServerCredentials();
  if (!papers.ca.empty()) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = FileBytes(papers.ca);
    options.pem_key_cert_pairs.push_back(
        {FileBytes(papers.key), FileBytes(papers.certificate)});
    credentials = grpc::SslServerCredentials(options);
  }
  builder.AddListeningPort(address, credentials);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  server->Wait();
  return 0;
}

// One channel, as a rank has: all callers share it.
std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const Papers& papers) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  if (!papers.ca.empty()) {
    credentials =
        grpc::SslCredentials({FileBytes(papers.ca), FileBytes(papers.key),
                              FileBytes(papers.certificate)});
  }
  auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  if (channel->WaitForConnected(deadline)) return channel;
  std::fprintf(stderr, "nobody answers at %s\n", address.c_str());
  return nullptr;
}

// A caller with raw bytes, for calls one after another. One thread.
class RawCaller {
 public:
  RawCaller(const std::shared_ptr<grpc::Channel>& channel, std::string method,
            const std::string& request)
      : stub_(channel),
        method_(std::move(method)),
        slice_(request),
        request_(&slice_, 1) {}
  ~RawCaller() { queue_.Shutdown(); }

  // Bytes of the answer; 0: it failed.
  size_t Call() {
    grpc::ClientContext context;
    const auto call =
        stub_.PrepareUnaryCall(&context, method_, request_, &queue_);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return status.ok() ? reply.Length() : 0;
  }

 private:
  grpc::GenericStub stub_;
  const std::string method_;
  const grpc::Slice slice_;
  const grpc::ByteBuffer request_;
  grpc::CompletionQueue queue_;
};

// Calls a second from kCallers threads, each answered with `due` bytes.
double Rate(const std::shared_ptr<grpc::Channel>& channel, const char* method,
            const std::string& request, size_t due) {
  std::atomic<int64_t> calls{0};
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      RawCaller caller(channel, method, request);
      while (std::chrono::steady_clock::now() - begin < kRoundLength) {
        if (caller.Call() != due) failed = true;
        ++calls;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  return failed ? 0 : static_cast<double>(calls) / seconds.count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Door {
  const char* name;
  std::string kilnd, echo;  // addresses
  Papers server, client;
  double bar;
};

bool Compare(const Door& door, const char* self,
             const wire::LookupRequest& lookup) {
  const auto kilnd = Connect(door.kilnd, door.client);
  if (kilnd == nullptr) return false;
  const std::string request = lookup.SerializeAsString();
  const size_t bytes = RawCaller(kilnd, kLookup, request).Call();
  const pid_t echo_pid =
      Spawn({self, "--echo", door.echo, std::to_string(bytes), door.server.ca,
             door.server.certificate, door.server.key});
  const auto echo = Connect(door.echo, door.client);
  if (echo == nullptr || bytes == 0) {
    End(echo_pid);
    return false;
  }
  std::vector<double> echo_rates, hit_rates;
  for (int round = 0; round < kRounds; ++round) {
    echo_rates.push_back(Rate(echo, kEcho, request, bytes));
    hit_rates.push_back(Rate(kilnd, kLookup, request, bytes));
  }
  End(echo_pid);
  const double echo_rate = Median(echo_rates), hit_rate = Median(hit_rates);
  std::printf("%s\n", door.name);
  std::printf("  %-26s %10zu\n", "reply bytes", bytes);
  std::printf("  %-26s %10.0f  (void below 10,000)\n", "raw echo, calls/s",
              echo_rate);
  std::printf("  %-26s %10.0f\n", "cache hit, calls/s", hit_rate);
  std::printf("  %-26s %10.2f  (bar: >= %.2f)\n", "hit / echo",
              echo_rate > 0 ? hit_rate / echo_rate : 0, door.bar);
  return hit_rate > 0 && echo_rate > 0;
}

int Measure(const std::string& kilnd, const std::string& worker,
            const char* self, const std::string& folder) {
  TestCa ca(folder, "ca");
  const TestCa::Files daemon = ca.Issue("kilnd.example", "kilnd");
  const TestCa::Files rank = ca.Issue("rank.example", "rank");
  const std::string socket = folder + "/kilnd.sock";
  const std::string tcp = "localhost:17117";
  std::ofstream(folder + "/kilnd.toml")
      << "[listen]\nsocket = \"" << socket << "\"\ntcp = \"" << tcp
      << "\"\ntls_certificate = \"" << daemon.certificate << "\"\ntls_key = \""
      << daemon.key << "\"\ntls_client_ca = \"" << ca.file()
      << "\"\n[storage]\ndata_folder = \"" << folder
      << "/data\"\n[workers]\nprogram = \"" << worker
      << "\"\n[log]\nlevel = \"error\"\n[[access]]\n"
         "who = \"cert:rank.example\"\nrole = \"reader\"\n"
         "namespaces = [\"default\"]\n";
  const pid_t pid = Spawn({kilnd, "--config=" + folder + "/kilnd.toml"});
  const wire::CompileRequest request = RequestWithConstant(kConstantBytes);
  bool done = false;
  if (const auto channel = ConnectTo(socket); channel != nullptr) {
    const auto stub = wire::CompileService::NewStub(channel);
    if (CompileAt(*stub, request) != 0) {
      const Papers server = {ca.file(), daemon.certificate, daemon.key};
      const Papers client = {ca.file(), rank.certificate, rank.key};
      const wire::LookupRequest lookup = LookupOf(request);
      const bool plain = Compare({"Unix socket, in plain",
                                  "unix:" + socket,
                                  "unix:" + folder + "/echo.sock",
                                  {},
                                  {},
                                  0.9},
                                 self, lookup);
      done = Compare({"TCP, both ends with certificates", tcp,
                      "localhost:17118", server, client, 0.85},
                     self, lookup) &&
             plain;
    }
  }
  End(pid);
  return done ? 0 : 1;
}

int Main(int argc, char** argv) {
  // As kilnd has it: what Abseil adds to each of gRPC's locks is no part of an answer.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (argc == 7 && std::string(argv[1]) == "--echo") {
    return RunEcho(argv[2], std::stoul(argv[3]), {argv[4], argv[5], argv[6]});
  }
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string worker = ArgumentNamed(argc, argv, "worker");
  if (kilnd.empty() || worker.empty()) {
    std::fprintf(stderr, "usage: %s --kilnd=PATH --worker=PATH\n", argv[0]);
    return 2;
  }
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  return Measure(kilnd, worker, argv[0], mkdtemp(pattern));
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

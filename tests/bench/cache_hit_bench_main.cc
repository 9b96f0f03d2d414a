// How fast the daemon answers a cache hit, against a bare gRPC echo of as many
// bytes.
//
//   cache_hit_bench --kilnd=PATH --worker=PATH
//
// Starts a private kilnd and, in a process of its own, an echo server, both on
// Unix sockets and both gRPC callback servers; compiles one graph whose
// artifact is about 32 KiB; then asks both in turn, in rounds, so that a noisy
// machine troubles them alike. Prints calls a second of each and the ratio of
// the medians. Exit 1 when something could not be run.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/compile_service.grpc.pb.h"
#include "proto/key/request_digest.h"
#include "tests/bench/echo.grpc.pb.h"

namespace kiln {
namespace {

constexpr int kCallers = 8;
constexpr int kRounds = 7;
constexpr auto kRoundLength = std::chrono::milliseconds(700);
constexpr int kConstantBytes = 24 << 10;

class EchoService final : public bench::EchoService::CallbackService {
 public:
  explicit EchoService(size_t bytes) : payload_(bytes, 'x') {}
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context,
                                 const bench::EchoRequest*,
                                 bench::EchoReply* reply) override {
    reply->set_payload(payload_);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const std::string payload_;
};

// y = x + constant, the constant large enough to give the artifact its size.
wire::CompileRequest RequestOfArtifactSize() {
  wire::CompileRequest request;
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v2");
  wire::Graph& graph = *request.mutable_graph();
  wire::TensorMeta meta;
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.set_device(wire::DEVICE_TYPE_CPU);
  meta.add_sizes()->set_value(kConstantBytes / 4);
  meta.add_strides()->set_value(1);
  wire::Input& input = *graph.add_inputs();
  input.set_name("x");
  *input.mutable_tensor() = meta;
  wire::Constant& constant = *graph.add_constants();
  constant.set_name("c");
  *constant.mutable_tensor() = meta;
  for (int i = 0; i < kConstantBytes; ++i) {
    constant.mutable_data()->push_back(static_cast<char>((i * 37) & 0x3f));
  }
  wire::Node& node = *graph.add_nodes();
  node.set_op("aten.add.Tensor");
  node.add_args()->set_value(0);
  node.add_args()->set_value(1);
  *node.add_results() = meta;
  graph.add_outputs()->set_value(2);
  return request;
}

// Calls a second that `call` makes from kCallers threads.
double Rate(const std::function<bool()>& call) {
  std::atomic<int64_t> calls{0};
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      while (std::chrono::steady_clock::now() - begin < kRoundLength) {
        if (!call()) failed = true;
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

pid_t Spawn(const std::vector<std::string>& words) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

int RunEcho(const std::string& socket, size_t bytes) {
  EchoService service(bytes);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  server->Wait();
  return 0;
}

// One channel a caller thread is not what a rank has: all share one.
std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  auto channel =
      grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials());
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  return channel->WaitForConnected(deadline) ? channel : nullptr;
}

int Compare(const std::string& kilnd_socket, const char* self,
            const std::string& folder) {
  const auto channel = Connect(kilnd_socket);
  if (channel == nullptr) {
    std::fprintf(stderr, "kilnd does not answer on %s\n", kilnd_socket.c_str());
    return 1;
  }
  const auto compile = wire::CompileService::NewStub(channel);
  const wire::CompileRequest request = RequestOfArtifactSize();
  grpc::ClientContext compile_context;
  auto stream = compile->Compile(&compile_context, request);
  wire::CompileEvent event;
  while (stream->Read(&event)) {
  }
  if (const grpc::Status s = stream->Finish(); !s.ok()) {
    std::fprintf(stderr, "compile: %s\n", s.error_message().c_str());
    return 1;
  }
  const auto digest = CanonicalizeRequest(request);
  if (!digest.ok()) return 1;
  wire::LookupRequest lookup;
  lookup.set_request_digest(digest->digest.total.ToBytes());
  *lookup.mutable_target() = request.target();
  const size_t bytes = event.result().artifact().ByteSizeLong();

  const std::string echo_socket = folder + "/echo.sock";
  const pid_t echo_pid =
      Spawn({self, "--echo", echo_socket, std::to_string(bytes)});
  const auto echo_channel = Connect(echo_socket);
  if (echo_channel == nullptr) return 1;
  const auto echo = bench::EchoService::NewStub(echo_channel);

  std::vector<double> echo_rates, hit_rates;
  for (int round = 0; round < kRounds; ++round) {
    echo_rates.push_back(Rate([&] {
      grpc::ClientContext context;
      bench::EchoRequest ask;
      ask.set_digest(lookup.request_digest());
      bench::EchoReply reply;
      return echo->Echo(&context, ask, &reply).ok();
    }));
    hit_rates.push_back(Rate([&] {
      grpc::ClientContext context;
      wire::LookupReply reply;
      return compile->Lookup(&context, lookup, &reply).ok() &&
             reply.outcome() == wire::LookupReply::OUTCOME_HIT;
    }));
  }
  kill(echo_pid, SIGTERM);
  waitpid(echo_pid, nullptr, 0);
  const double echo_rate = Median(echo_rates), hit_rate = Median(hit_rates);
  std::printf("%-28s %10s\n", "figure", "value");
  std::printf("%-28s %10zu\n", "reply bytes", bytes);
  std::printf("%-28s %10.0f\n", "bare echo, calls/s", echo_rate);
  std::printf("%-28s %10.0f\n", "cache hit, calls/s", hit_rate);
  std::printf("%-28s %10.2f  (bar: >= 0.6)\n", "hit / echo",
              echo_rate > 0 ? hit_rate / echo_rate : 0);
  return hit_rate > 0 && echo_rate > 0 ? 0 : 1;
}

std::string Value(const char* argument, const char* name) {
  const std::string prefix = std::string(name) + "=";
  const std::string text = argument;
  return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : "";
}

int Main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--echo") {
    return RunEcho(argv[2], std::stoul(argv[3]));
  }
  std::string kilnd, worker;
  for (int i = 1; i < argc; ++i) {
    if (const auto v = Value(argv[i], "--kilnd"); !v.empty()) kilnd = v;
    if (const auto v = Value(argv[i], "--worker"); !v.empty()) worker = v;
  }
  if (kilnd.empty() || worker.empty()) {
    std::fprintf(stderr, "usage: %s --kilnd=PATH --worker=PATH\n", argv[0]);
    return 2;
  }
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const std::string socket = folder + "/kilnd.sock";
  const pid_t daemon =
      Spawn({kilnd, "--socket=" + socket, "--data-folder=" + folder + "/data",
             "--worker=" + worker, "--log-level=error"});
  const int result = Compare(socket, argv[0], folder);
  kill(daemon, SIGTERM);
  waitpid(daemon, nullptr, 0);
  return result;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

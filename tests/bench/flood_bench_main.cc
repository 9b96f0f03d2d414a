// How long lookups take while others fill the daemon with compiles.
//
//   flood_bench --kilnd=PATH --worker=PATH [--clients=1000] [--lookups=1000]
//
// Starts a private kilnd. So many clients, each with a connection of its own, look
// for stored artifacts, one lookup after another: first alone, then beside eight
// callers that have graph after graph compiled as `prewarm`. Prints the
// percentiles of both and the ratio of the 99th. Exit 1 when something could not
// be run.
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "proto/compile_service.grpc.pb.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/lookup_clients.h"

namespace kiln {
namespace {

constexpr int kStored = 64;
constexpr int kConstantBytes = 8 << 10;
constexpr int kFlooders = 8;

// Has graphs compiled that nobody has asked for, until it is destroyed.
class Flood {
 public:
  explicit Flood(const std::string& socket) {
    for (int i = 0; i < kFlooders; ++i) {
      callers_.emplace_back([this, socket] {
        const auto channel = ConnectTo(socket);
        const auto stub = wire::CompileService::NewStub(channel);
        while (!ending_) {
          wire::CompileRequest request =
              RequestWithConstant(kConstantBytes + 4 + 4 * next_++);
          request.set_urgency(wire::URGENCY_PREWARM);
          if (CompileAt(*stub, request) != 0) ++compiled_;
        }
      });
    }
  }
  ~Flood() {
    ending_ = true;
    for (std::thread& caller : callers_) caller.join();
  }
  int compiled() const { return compiled_; }

 private:
  std::atomic<bool> ending_ = false;
  std::atomic<int> next_ = 0;
  std::atomic<int> compiled_ = 0;
  std::vector<std::thread> callers_;
};

int Measure(const std::string& socket, int clients, int lookups) {
  const auto channel = ConnectTo(socket);
  if (channel == nullptr) return 1;
  const auto stub = wire::CompileService::NewStub(channel);
  std::vector<wire::LookupRequest> asked;
  for (int i = 0; i < kStored; ++i) {
    const wire::CompileRequest request = RequestWithConstant(kConstantBytes, i);
    if (CompileAt(*stub, request) == 0) return 1;
    asked.push_back(LookupOf(request));
  }
  const auto goes_on = [lookups](size_t made) {
    return made < static_cast<size_t>(lookups);
  };
  const auto idle = RunLookups(socket, clients, asked, goes_on);
  std::vector<float> flooded;
  int compiled = 0;
  {
    Flood flood(socket);
    flooded = RunLookups(socket, clients, asked, goes_on);
    compiled = flood.compiled();
  }
  if (idle.empty() || flooded.empty()) return 1;
  std::printf("%d clients, %d lookups each, %d compiles beside them\n", clients,
              lookups, compiled);
  TellPercentiles("alone", idle);
  TellPercentiles("beside the flood", flooded);
  std::printf("  %-22s %.2f  (bar: <= 3)\n", "p99 flood / alone",
              At(flooded, 0.99) / At(idle, 0.99));
  return 0;
}

int Main(int argc, char** argv) {
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string worker = ArgumentNamed(argc, argv, "worker");
  if (kilnd.empty() || worker.empty()) {
    std::fprintf(stderr,
                 "usage: %s --kilnd=PATH --worker=PATH [--clients=1000] "
                 "[--lookups=1000]\n",
                 argv[0]);
    return 2;
  }
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const std::string socket = folder + "/kilnd.sock";
  const pid_t pid =
      Spawn({kilnd, "--socket=" + socket, "--data-folder=" + folder + "/data",
             "--worker=" + worker, "--log-level=error"});
  const int status = Measure(socket, NumberNamed(argc, argv, "clients", 1000),
                             NumberNamed(argc, argv, "lookups", 1000));
  End(pid);
  return status;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

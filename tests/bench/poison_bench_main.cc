// How long hits take while the daemon is fed poison.
//
//   poison_bench --fake=PATH --kilnd=PATH --planner=PATH [--clients=16] [--rounds=5]
//
// Starts private daemons, one with a worker that does as the graph says, one with a
// worker that lies about what it planned. So many clients look for 32 KiB
// artifacts: for as long as before alone, likewise beside a loop at the workers'
// priority that is none of the daemon's, then while every poison goes through, round after
// round. Prints the percentiles and the medians, over the rounds, of the ratios of
// the 99th. What the loop costs is the kernel's: on two cores one that never
// sleeps keeps a core from taking over what waits for the other.
// Exit 1 when something could not be run, or a poison did not fail as is due.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/admin_service.grpc.pb.h"
#include "proto/compile_service.grpc.pb.h"
#include "proto/jail/lowest_priority.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/lookup_clients.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStored = 16;
constexpr int kArtifactBytes = 32 << 10;
constexpr int kSmall = 4096;

// What workers may take: less than the defaults, so that each poison goes through
// all that its failure takes, in seconds.
constexpr char kConfiguration[] =
    "[workers]\ntimeout = \"2s\"\ncpu_limit = \"1s\"\n"
    "memory_bytes = 1073741824\n";

struct Poison {
  std::string name;
  std::string op;   // in the place of the graph's
  std::string lie;  // the cache tag
  int nodes = 1;
  // Of these one: which limit comes first is the machine's matter.
  std::vector<std::string> due = {"WORKER_DIED"};
};

const std::vector<Poison>& PoisonsOfTheWorker() {
  static const auto& poisons = *new std::vector<Poison>{
      {.name = "endless loop", .op = "fake.spin.any"},
      {.name = "endless wait", .op = "fake.hang.any"},
      {.name = "all memory", .op = "fake.eat.any"},
      {.name = "SIGSEGV", .op = "fake.crash.any"},
      {.name = "fork bomb", .op = "fake.bomb.any"},
      {.name = "abort", .op = "fake.die.any"},
      {.name = "garbage frames", .op = "fake.garbage.any"},
      {.name = "abort in a build", .op = "fake.build_die.any"},
  };
  return poisons;
}

const std::vector<Poison>& PoisonsBySource() {
  static const auto& poisons = *new std::vector<Poison>{
      {.name = "#include of /etc/passwd",
       .lie = "lie.include./etc/passwd",
       .due = {"TOOLCHAIN_REJECTED", "WORKER_DIED"}},
      {.name = "100 MB of source",
       .lie = "lie.source.100",
       .due = {"TOO_LARGE", "WORKER_DIED"}},
      {.name = "50 MB of source", .lie = "lie.source.50"},
      {.name = "graph of 100,000 nodes", .nodes = 100'000},
  };
  return poisons;
}

// `nonce`: no two requests of a run are equal.
wire::CompileRequest RequestOf(const Poison& poison, int nonce) {
  wire::CompileRequest request = RequestWithConstant(kSmall);
  wire::Graph& graph = *request.mutable_graph();
  if (!poison.op.empty()) graph.mutable_nodes(0)->set_op(poison.op);
  for (int i = 1; i < poison.nodes; ++i) {
    wire::Node node = graph.nodes(i - 1);
    node.mutable_args(0)->set_value(1 + i);
    *graph.add_nodes() = std::move(node);
  }
  graph.mutable_outputs(0)->set_value(1 + poison.nodes);
  request.mutable_options()->mutable_artifact()->set_cache_tag(
      poison.lie + " " + std::to_string(nonce));
  return request;
}

// The reason that the daemon gives for not compiling; empty when it did.
std::string Refusal(wire::CompileService::Stub& daemon,
                    const wire::CompileRequest& request) {
  grpc::ClientContext context;
  const auto stream = daemon.Compile(&context, request);
  wire::CompileEvent event;
  while (stream->Read(&event)) {
  }
  if (stream->Finish().ok()) return "";
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("kiln-reason");
  if (found == trailers.end()) return "an error without a reason";
  return {found->second.data(), found->second.size()};
}

// A process that takes what processor time others leave, while this lives.
class LowestLoop {
 public:
  LowestLoop() : pid_(fork()) {
    if (pid_ != 0) return;
    TakeLowestPriority();
    while (getppid() != 0) {
    }
  }
  ~LowestLoop() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
};

// One daemon and the poisons that its workers are fed.
class Patient {
 public:
  Patient(const std::string& socket, const std::vector<Poison>& poisons)
      : socket_(socket), poisons_(poisons) {}

  bool Prepare() {
    const auto channel = ConnectTo(socket_);
    if (channel == nullptr) return false;
    const auto stub = wire::CompileService::NewStub(channel);
    for (int i = 0; i < kStored; ++i) {
      wire::CompileRequest request = RequestWithConstant(kArtifactBytes, i);
      // A fake worker's object is as large as it is told.
      if (!poisons_[0].op.empty()) {
        request.mutable_graph()->mutable_nodes(0)->set_op(
            "fake.build_pad." + std::to_string(kArtifactBytes));
      }
      if (CompileAt(*stub, request) == 0) return false;
      asked_.push_back(LookupOf(request));
    }
    return true;
  }

  // Lookups for `time`, then beside the poison. False when one went wrong.
  bool Round(int clients, Clock::duration& time) {
    std::vector<wire::CompileRequest> requests;
    for (const Poison& poison : poisons_)
      requests.push_back(RequestOf(poison, ++jobs_));
    const float quiet = LookFor(time, clients, quiet_);
    const float beside_loop = [&] {
      const LowestLoop loop;
      return LookFor(time, clients, looped_);
    }();
    const Clock::time_point begun = Clock::now();
    std::atomic<bool> over = false;
    bool failed_as_due = false;
    std::thread poisoner([&] {
      failed_as_due = FeedAll(requests);
      over = true;
    });
    const float beside =
        Look(clients, poisoned_, [&over](size_t) { return !over; });
    poisoner.join();
    time = Clock::now() - begun;
    if (quiet == 0 || beside_loop == 0 || beside == 0) return false;
    loop_ratios_.push_back(beside_loop / quiet);
    ratios_.push_back(beside / quiet);
    return failed_as_due;
  }

  void Tell(const char* name) {
    for (std::vector<float>* micros : {&quiet_, &looped_, &poisoned_})
      std::sort(micros->begin(), micros->end());
    std::printf("%s: %d poisoned jobs, each failed with its reason\n", name,
                jobs_);
    TellPercentiles("alone", quiet_);
    TellPercentiles("beside a loop", looped_);
    TellPercentiles("beside the poison", poisoned_);
    TellRatios("p99 loop / alone", loop_ratios_, "");
    TellRatios("p99 poison / alone", ratios_, "; bar: <= 1.2");
  }

 private:
  static void TellRatios(const char* name, std::vector<float>& ratios,
                         const char* bar) {
    std::sort(ratios.begin(), ratios.end());
    std::printf("  %-22s %.2f  (%.2f to %.2f%s)\n", name, At(ratios, 0.5),
                ratios.front(), ratios.back(), bar);
  }

  float LookFor(Clock::duration time, int clients, std::vector<float>& into) {
    const Clock::time_point end = Clock::now() + time;
    return Look(clients, into, [end](size_t) { return Clock::now() < end; });
  }

  // The 99th percentile; 0 when a lookup went wrong.
  float Look(int clients, std::vector<float>& into,
             const std::function<bool(size_t)>& goes_on) {
    const std::vector<float> micros =
        RunLookups(socket_, clients, asked_, goes_on);
    into.insert(into.end(), micros.begin(), micros.end());
    return micros.empty() ? 0 : At(micros, 0.99);
  }

  // Every poison once, all at once. A caller of much poison is refused, so that
  // the list is cleared first.
  bool FeedAll(const std::vector<wire::CompileRequest>& requests) {
    const auto channel = ConnectTo(socket_);
    if (channel == nullptr) return false;
    const auto admin = wire::AdminService::NewStub(channel);
    grpc::ClientContext context;
    wire::QuarantineRequest clear;
    clear.set_clear_all(true);
    wire::QuarantineReply cleared;
    if (!admin->ListQuarantine(&context, clear, &cleared).ok()) return false;
    std::atomic<bool> good = true;
    std::vector<std::thread> callers;
    for (size_t i = 0; i < poisons_.size(); ++i) {
      callers.emplace_back([&, i] {
        const Poison& poison = poisons_[i];
        const auto stub = wire::CompileService::NewStub(ConnectTo(socket_));
        const std::string reason = Refusal(*stub, requests[i]);
        if (std::count(poison.due.begin(), poison.due.end(), reason) > 0)
          return;
        std::fprintf(stderr, "%s: found \"%s\", %s is due\n",
                     poison.name.c_str(), reason.c_str(),
                     poison.due[0].c_str());
        good = false;
      });
    }
    for (std::thread& caller : callers) caller.join();
    return good;
  }

  const std::string socket_;
  const std::vector<Poison>& poisons_;
  std::vector<wire::LookupRequest> asked_;
  std::vector<float> quiet_, looped_, poisoned_;
  std::vector<float> loop_ratios_,
      ratios_;  // of the 99th percentiles, a round each
  int jobs_ = 0;
};

bool Measure(const char* name, const std::string& kilnd,
             const std::string& worker, const std::vector<Poison>& poisons,
             int clients, int rounds) {
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const std::string socket = folder + "/kilnd.sock";
  std::ofstream(folder + "/kilnd.toml") << kConfiguration;
  const pid_t pid =
      Spawn({kilnd, "--socket=" + socket, "--data-folder=" + folder + "/data",
             "--config=" + folder + "/kilnd.toml", "--worker=" + worker,
             "--log-level=error"});
  Patient patient(socket, poisons);
  bool good = patient.Prepare();
  Clock::duration time = std::chrono::seconds(5);
  for (int i = 0; good && i < rounds; ++i) good = patient.Round(clients, time);
  if (good) patient.Tell(name);
  End(pid);
  std::filesystem::remove_all(folder);
  return good;
}

int Main(int argc, char** argv) {
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string fake = ArgumentNamed(argc, argv, "fake");
  const std::string planner = ArgumentNamed(argc, argv, "planner");
  if (kilnd.empty() || fake.empty() || planner.empty()) {
    std::fprintf(stderr,
                 "usage: %s --fake=PATH --kilnd=PATH --planner=PATH "
                 "[--clients=16] [--rounds=5]\n",
                 argv[0]);
    return 2;
  }
  const int clients = NumberNamed(argc, argv, "clients", 16);
  const int rounds = NumberNamed(argc, argv, "rounds", 5);
  std::printf("%d clients, %d rounds\n", clients, rounds);
  const bool good = Measure("a worker taken over", kilnd, fake,
                            PoisonsOfTheWorker(), clients, rounds) &&
                    Measure("sources and graphs", kilnd, planner,
                            PoisonsBySource(), clients, rounds);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

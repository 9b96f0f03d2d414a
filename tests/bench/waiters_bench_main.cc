// What many callers that wait for one compile cost the daemon.
//
//   waiters_bench --kilnd=PATH --worker=PATH_OF_FAKE_WORKER [--callers=10000]
//
// Starts a private kilnd with its default limits, whose worker waits for a gate, lets
// all callers ask for one graph of a 32 KiB artifact, opens the gate when all wait,
// and prints: jobs that ran, the time from the job's end, as the daemon logs it, to
// the last answer, and the daemon's memory. Exit 1 when a caller got no equal
// artifact.

#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/admin_service.grpc.pb.h"
#include "proto/compile_service.grpc.pb.h"
#include "tests/bench/bench_daemon.h"

namespace kiln {
namespace {

// The wall's: the daemon's log has its time.
using Clock = std::chrono::system_clock;

constexpr int kCallersAChannel = 100;  // HTTP/2's usual most
constexpr char kPad[] = "fake.build_pad.32768";

wire::CompileRequest GatedRequest() {
  wire::CompileRequest request;
  request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
  wire::Graph& graph = *request.mutable_graph();
  wire::TensorMeta meta;
  meta.set_dtype(wire::DTYPE_FLOAT32);
  meta.set_device(wire::DEVICE_TYPE_CPU);
  meta.add_sizes()->set_value(8);
  meta.add_strides()->set_value(1);
  *graph.add_inputs()->mutable_tensor() = meta;
  for (const char* op : {"fake.gate.go", kPad}) {
    wire::Node& node = *graph.add_nodes();
    node.set_op(op);
    node.add_args()->set_value(0);
    *node.add_results() = meta;
  }
  graph.add_outputs()->set_value(2);
  return request;
}

// What all callers tell.
struct Answers {
  std::mutex mu;
  std::condition_variable changed;
  int ended = 0;
  int right = 0;
  std::string artifact;
  Clock::time_point last;
};

class Caller final : public grpc::ClientReadReactor<wire::CompileEvent> {
 public:
  Caller(wire::CompileService::Stub& stub, const wire::CompileRequest& request,
         Answers& answers)
      : answers_(answers) {
    stub.async()->Compile(&context_, &request, this);
    StartRead(&event_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (event_.has_result()) {
      artifact_ = event_.result().artifact().artifact();
      at_ = Clock::now();
    }
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(answers_.mu);
    if (answers_.artifact.empty()) answers_.artifact = artifact_;
    if (status.ok() && !artifact_.empty() && artifact_ == answers_.artifact)
      ++answers_.right;
    if (!status.ok() && answers_.ended == answers_.right)
      std::fprintf(stderr, "call: %s\n", status.error_message().c_str());
    answers_.last = std::max(answers_.last, at_);
    ++answers_.ended;
    answers_.changed.notify_all();
  }

 private:
  Answers& answers_;
  grpc::ClientContext context_;
  wire::CompileEvent event_;
  std::string artifact_;
  Clock::time_point at_;
};

std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket,
                                   grpc::InsecureChannelCredentials(), own);
}

// "VmRSS:", "VmHWM:" of a process, in MB.
double MegabytesOf(pid_t pid, const std::string& field) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (in >> word) {
    double kilobytes = 0;
    if (word == field && in >> kilobytes) return kilobytes / 1024;
  }
  return 0;
}

int WaitersOf(wire::AdminService::Stub& admin) {
  grpc::ClientContext context;
  wire::JobsReply jobs;
  if (!admin.Jobs(&context, {}, &jobs).ok() || jobs.jobs_size() != 1) return 0;
  return static_cast<int>(jobs.jobs(0).waiters());
}

int64_t CounterOf(wire::AdminService::Stub& admin, const std::string& name) {
  grpc::ClientContext context;
  wire::StatsReply stats;
  admin.Stats(&context, {}, &stats);
  for (const wire::Counter& counter : stats.counters()) {
    if (counter.name() == name) return counter.value();
  }
  return -1;
}

// When the daemon logged that the job was done, to a millisecond, before it told
// anybody; never, when it did not.
Clock::time_point JobEnd(const std::string& folder) {
  std::ifstream log(folder + "/log");
  for (std::string line; std::getline(log, line);) {
    // "I 2026-11-25T03:41:13.644Z compile.done job=..."
    const size_t what = line.find("Z compile.done ");
    if (what == std::string::npos || what < 23) continue;
    std::tm day = {};
    const std::string time = line.substr(what - 23, 23);
    if (strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &day) == nullptr) continue;
    return Clock::from_time_t(timegm(&day)) +
           std::chrono::milliseconds(std::stoi(time.substr(20)));
  }
  return Clock::time_point::min();
}

int Measure(const std::string& folder, pid_t daemon, int callers) {
  const std::string socket = folder + "/kilnd.sock";
  const auto own = Connect(socket);
  if (!own->WaitForConnected(std::chrono::system_clock::now() +
                             std::chrono::seconds(20)))
    return 1;
  const auto admin = wire::AdminService::NewStub(own);
  const double idle = MegabytesOf(daemon, "VmRSS:");
  const wire::CompileRequest request = GatedRequest();
  Answers answers;
  std::vector<std::unique_ptr<wire::CompileService::Stub>> stubs;
  std::vector<std::unique_ptr<Caller>> all;
  for (int i = 0; i < callers; ++i) {
    if (i % kCallersAChannel == 0)
      stubs.push_back(wire::CompileService::NewStub(Connect(socket)));
    all.push_back(std::make_unique<Caller>(*stubs.back(), request, answers));
  }
  for (int i = 0; i < 600 && WaitersOf(*admin) < callers; ++i) usleep(100'000);
  const int waiting = WaitersOf(*admin);
  const double waiting_mb = MegabytesOf(daemon, "VmRSS:");
  std::ofstream(folder + "/data/scratch/gate_go") << "open";
  {
    std::unique_lock lock(answers.mu);
    answers.changed.wait_for(lock, std::chrono::seconds(120),
                             [&] { return answers.ended == callers; });
  }
  const std::chrono::duration<double> after = answers.last - JobEnd(folder);
  std::printf("%-42s %10s  %s\n", "figure", "value", "bar");
  std::printf("%-42s %10d\n", "callers that waited at once", waiting);
  std::printf("%-42s %10zu\n", "artifact, bytes", answers.artifact.size());
  std::printf("%-42s %10lld  1\n", "compiles",
              static_cast<long long>(CounterOf(*admin, "jobs.started")));
  std::printf("%-42s %10d  all\n", "equal artifacts", answers.right);
  std::printf("%-42s %10.2f  <= 1\n", "job's end to last answer, s",
              after.count());
  std::printf("%-42s %10.0f\n", "daemon idle, MB", idle);
  std::printf("%-42s %10.0f\n", "daemon while all wait, MB", waiting_mb);
  std::printf("%-42s %10.0f  <= 400\n", "daemon's most, MB",
              MegabytesOf(daemon, "VmHWM:"));
  return answers.right == callers ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string worker = ArgumentNamed(argc, argv, "worker");
  const std::string asked = ArgumentNamed(argc, argv, "callers");
  const int callers = asked.empty() ? 10000 : std::stoi(asked);
  if (kilnd.empty() || worker.empty()) {
    std::fprintf(stderr, "usage: %s --kilnd=PATH --worker=PATH [--callers=N]\n",
                 argv[0]);
    return 2;
  }
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const pid_t daemon = Spawn({kilnd, "--socket=" + folder + "/kilnd.sock",
                              "--data-folder=" + folder + "/data",
                              "--worker=" + worker, "--log-level=info"},
                             folder + "/log");
  const int result = Measure(folder, daemon, callers);
  End(daemon);
  std::filesystem::remove_all(folder);
  return result;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }

// What a cache of a million entries costs a daemon.
//
//   entries_bench --kilnd=PATH --worker=PATH --folder=PATH [--entries=1000000]
//
// Fills the data folder with small real records through the cache itself (an entry
// with its index and its graph's text each), as far as it is not filled yet; starts
// a private kilnd on it and on an empty folder, and prints: the time from exec to
// SERVING, and memory an entry once all of them are known. Exit 1 when a daemon does
// not serve or an entry is missing.

#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cache/cache_stack.h"
#include "proto/admin_service.grpc.pb.h"
#include "proto/base/clock.h"
#include "server/access/open_folder.h"
#include "server/signer.h"
#include "tests/bench/bench_daemon.h"
#include "tests/support/health_client.h"
#include "tests/support/key_named.h"

namespace kiln {
namespace {

constexpr int kFillers = 2;
constexpr int kArtifactBytes = 600;
constexpr std::chrono::minutes kMostWaiting(10);

NewEntry EntryNumber(int number) {
  NewEntry entry;
  const std::string name = absl::StrCat("graph ", number);
  entry.key = KeyNamed(name, "default");
  entry.artifact.set_artifact(std::string(kArtifactBytes, 'a'));
  entry.build = absl::Milliseconds(100 + number % 900);
  entry.kernels = 3;
  entry.cache_namespace = "default";
  entry.graph_name = name;
  entry.target = "cpu x86-64-v3";
  entry.graph_text = absl::StrCat("input 0: f32[s0, 4]\nnode 0: ", number);
  return entry;
}

bool Fill(const std::string& folder, int entries) {
  std::filesystem::create_directories(folder);
  const auto key =
      LoadOrMakeSigningKey(*OpenFolder::Open(folder), "signing.key");
  const RealClock clock;
  CacheOptions options;
  options.folder = folder + "/records";
  const auto stack =
      CacheStack::Open(options, std::make_shared<KeyRing>(*key), clock);
  if (!stack.ok()) {
    fprintf(stderr, "%s\n", stack.status().ToString().c_str());
    return false;
  }
  ArtifactCache& cache = (*stack)->artifacts();
  if (cache.Lookup(EntryNumber(entries - 1).key.digest, {{}, {}}).hit())
    return true;
  fprintf(stderr, "filling %s with %d entries\n", folder.c_str(), entries);
  std::atomic<bool> good{true};
  std::vector<std::thread> fillers;
  for (int f = 0; f < kFillers; ++f) {
    fillers.emplace_back([&, f] {
      for (int i = f; i < entries; i += kFillers) {
        if (!cache.Insert(EntryNumber(i)).ok()) good = false;
        if (i % 100000 == 0) fprintf(stderr, "%d\n", i);
      }
    });
  }
  for (std::thread& filler : fillers) filler.join();
  return good;
}

int64_t ResidentBytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib * 1024;
  }
  return 0;
}

struct Figures {
  bool serves = false;
  double seconds_to_serving = 0;
  double seconds_to_known = 0;
  int64_t resident_at_serving = 0;
  int64_t resident = 0;
};

int64_t EntriesKnownTo(const std::string& socket) {
  const auto admin = wire::AdminService::NewStub(ConnectTo(socket));
  grpc::ClientContext context;
  wire::StatsReply stats;
  if (!admin->Stats(&context, {}, &stats).ok()) return -1;
  for (const wire::Counter& counter : stats.counters())
    if (counter.name() == "cache.artifacts.entries") return counter.value();
  return -1;
}

Figures Measure(const std::string& kilnd, const std::string& worker,
                const std::string& folder, int64_t entries) {
  const std::string socket = folder + ".sock";  // a data folder has none
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         begin)
        .count();
  };
  const pid_t pid =
      Spawn({kilnd, "--socket", socket, "--data-folder", folder, "--worker",
             worker, "--workers", "1", "--log-level", "warning"});
  Figures figures;
  while (!figures.serves &&
         std::chrono::steady_clock::now() - begin < kMostWaiting) {
    figures.serves = AskHealth("unix:" + socket) == "SERVING";
    if (!figures.serves)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  figures.seconds_to_serving = seconds();
  figures.resident_at_serving = ResidentBytes(pid);
  while (EntriesKnownTo(socket) < entries &&
         std::chrono::steady_clock::now() - begin < kMostWaiting)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  figures.seconds_to_known = seconds();
  figures.serves &= EntriesKnownTo(socket) == entries;
  figures.resident = ResidentBytes(pid);
  End(pid);
  return figures;
}

int Run(int argc, char** argv) {
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string worker = ArgumentNamed(argc, argv, "worker");
  const std::string folder = ArgumentNamed(argc, argv, "folder");
  int entries = 1000000;
  const std::string asked = ArgumentNamed(argc, argv, "entries");
  if (kilnd.empty() || worker.empty() || folder.empty() ||
      (!asked.empty() && !absl::SimpleAtoi(asked, &entries))) {
    fprintf(stderr,
            "usage: entries_bench --kilnd=PATH --worker=PATH --folder=PATH "
            "[--entries=N]\n");
    return 2;
  }
  const std::string full = folder + "/full", empty = folder + "/empty";
  std::filesystem::create_directories(empty);
  if (!Fill(full, entries)) return 1;
  const Figures none = Measure(kilnd, worker, empty, 0);
  const Figures all = Measure(kilnd, worker, full, entries);
  printf("entries                    %d\n", entries);
  printf("empty: to SERVING          %.3f s, %.1f MB\n",
         none.seconds_to_serving, none.resident / 1e6);
  printf("full: to SERVING           %.3f s, %.1f MB\n", all.seconds_to_serving,
         all.resident_at_serving / 1e6);
  printf("full: all entries known    %.3f s, %.1f MB\n", all.seconds_to_known,
         all.resident / 1e6);
  printf("memory an entry            %.0f B\n",
         static_cast<double>(all.resident - none.resident) / entries);
  return none.serves && all.serves ? 0 : 1;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Run(argc, argv); }

// How long a hit takes that comes from Redis on loopback, against a hit that is
// near.
//
//   far_hit_bench --kilnd=PATH --worker=PATH [--redis=/usr/bin/redis-server]
//
// Starts a private redis-server and two daemons that share it. The first compiles
// graphs whose artifacts are about 32 KiB. The second is then asked for each, which
// it gets from Redis, and at once again, which it has near; its cache is purged
// before the next round. Prints medians of single lookups over gRPC, one caller,
// and their ratio, the daemon at rest in between; last, near hits with Redis
// stopped. Exit 1 when something could
// not be run.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/escaping.h"
#include "proto/admin_service.grpc.pb.h"
#include "tests/bench/bench_daemon.h"

namespace kiln {
namespace {

constexpr int kGraphs = 20;
constexpr int kRounds = 30;
constexpr int kConstantBytes = 24 << 10;
// Between two lookups: what is kept near after the answer is not the next one's.
constexpr int kRestUs = 2000;
constexpr char kRedisPort[] = "21379";

struct Peer {
  pid_t pid = -1;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::CompileService::Stub> compile;
  std::unique_ptr<wire::AdminService::Stub> admin;
};

Peer StartDaemon(const std::string& kilnd, const std::string& worker,
                 const std::string& folder, const std::string& trusted) {
  std::ofstream(folder + ".toml")
      << "[far]\naddresses = [\"127.0.0.1:" << kRedisPort << "\"]\n"
      << "[keys]\ntrusted = [" << trusted << "]\n";
  Peer peer;
  peer.pid = Spawn({kilnd, "--config=" + folder + ".toml",
                    "--socket=" + folder + ".sock", "--data-folder=" + folder,
                    "--worker=" + worker, "--log-level=error"});
  peer.channel = ConnectTo(folder + ".sock");
  if (peer.channel == nullptr) return peer;
  peer.compile = wire::CompileService::NewStub(peer.channel);
  peer.admin = wire::AdminService::NewStub(peer.channel);
  return peer;
}

int64_t Counter(Peer& peer, const std::string& name) {
  grpc::ClientContext context;
  wire::StatsReply stats;
  if (!peer.admin->Stats(&context, {}, &stats).ok()) return -1;
  for (const wire::Counter& counter : stats.counters())
    if (counter.name() == name) return counter.value();
  return -1;
}

// Microseconds of one hit; below zero for what is none.
double HitUs(Peer& peer, const wire::LookupRequest& lookup) {
  usleep(kRestUs);
  grpc::ClientContext context;
  wire::LookupReply reply;
  const auto begin = std::chrono::steady_clock::now();
  const bool ok = peer.compile->Lookup(&context, lookup, &reply).ok();
  const std::chrono::duration<double, std::micro> took =
      std::chrono::steady_clock::now() - begin;
  return ok && reply.outcome() == wire::LookupReply::OUTCOME_HIT ? took.count()
                                                                 : -1;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() || values.front() < 0 ? -1 : values[values.size() / 2];
}

int Compare(Peer& maker, Peer& reader, pid_t redis) {
  std::vector<wire::LookupRequest> lookups;
  size_t bytes = 0;
  for (int i = 0; i < kGraphs; ++i) {
    const wire::CompileRequest request = RequestWithConstant(kConstantBytes, i);
    bytes = CompileAt(*maker.compile, request);
    if (bytes == 0) return 1;
    lookups.push_back(LookupOf(request));
  }
  while (Counter(maker, "far.writes") < kGraphs) usleep(1000);
  std::vector<double> far, near, alone;
  for (int round = 0; round < kRounds; ++round) {
    grpc::ClientContext context;
    wire::PurgeRequest purge;
    purge.set_all(true);
    wire::PurgeReply purged;
    if (!reader.admin->Purge(&context, purge, &purged).ok()) return 1;
    for (const wire::LookupRequest& lookup : lookups)
      far.push_back(HitUs(reader, lookup));
    // Verified, and into memory.
    for (const wire::LookupRequest& lookup : lookups) HitUs(reader, lookup);
    for (const wire::LookupRequest& lookup : lookups)
      near.push_back(HitUs(reader, lookup));
  }
  kill(redis, SIGSTOP);
  for (int round = 0; round < kRounds; ++round) {
    for (const wire::LookupRequest& lookup : lookups)
      alone.push_back(HitUs(reader, lookup));
  }
  kill(redis, SIGCONT);
  const bool sound = Counter(reader, "far.hits") == kGraphs * kRounds;
  const double far_us = Median(far), near_us = Median(near);
  std::printf("%-34s %10s\n", "figure", "value");
  std::printf("%-34s %10zu\n", "reply bytes", bytes);
  std::printf("%-34s %10.0f\n", "near hit, us", near_us);
  std::printf("%-34s %10.0f\n", "hit from Redis, us", far_us);
  std::printf("%-34s %10.0f\n", "near hit with Redis stopped, us",
              Median(alone));
  std::printf("%-34s %10.2f  (bar: <= 3)\n", "hit from Redis / near hit",
              far_us / near_us);
  std::printf("%-34s %10.2f  (bar: 1)\n", "near hit, Redis stopped / there",
              Median(alone) / near_us);
  return sound && near_us > 0 && far_us > 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string kilnd = ArgumentNamed(argc, argv, "kilnd");
  const std::string worker = ArgumentNamed(argc, argv, "worker");
  std::string redis_server = ArgumentNamed(argc, argv, "redis");
  if (redis_server.empty()) redis_server = "/usr/bin/redis-server";
  if (kilnd.empty() || worker.empty()) {
    std::fprintf(stderr, "usage: %s --kilnd=PATH --worker=PATH\n", argv[0]);
    return 2;
  }
  char pattern[] = "/tmp/kiln-bench-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const pid_t redis =
      Spawn({redis_server, "--bind", "127.0.0.1", "--port", kRedisPort, "--dir",
             folder, "--save", "", "--logfile", folder + "/redis.log"});
  Peer maker = StartDaemon(kilnd, worker, folder + "/maker", "");
  int result = 1;
  wire::DescribeReply said;
  grpc::ClientContext context;
  if (maker.compile != nullptr &&
      maker.compile->Describe(&context, {}, &said).ok()) {
    const std::string key =
        "\"" + absl::BytesToHexString(said.public_key()) + "\"";
    Peer reader = StartDaemon(kilnd, worker, folder + "/reader", key);
    if (reader.compile != nullptr) result = Compare(maker, reader, redis);
    End(reader.pid);
  }
  End(maker.pid);
  End(redis);
  if (result == 0) {
    std::filesystem::remove_all(folder);
  } else {
    std::fprintf(stderr, "see %s\n", folder.c_str());
  }
  return result;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::Main(argc, argv); }
